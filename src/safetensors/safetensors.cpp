#include "src/safetensors/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "node/error.hpp"

namespace yamata::safetensors {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the format's own library

struct NamedType {
  const char* name;
  Type type;
  std::uint64_t bytes;
};
constexpr NamedType kTypes[] = {{"F16", Type::kF16, 2},       {"BF16", Type::kBF16, 2}, {"F32", Type::kF32, 4},
                                {"I32", Type::kI32, 4},       {"I64", Type::kI64, 8},   {"BOOL", Type::kOther, 1},
                                {"U8", Type::kOther, 1},      {"I8", Type::kOther, 1},  {"F8_E4M3", Type::kOther, 1},
                                {"F8_E5M2", Type::kOther, 1}, {"I16", Type::kOther, 2}, {"U16", Type::kOther, 2},
                                {"U32", Type::kOther, 4},     {"F64", Type::kOther, 8}, {"U64", Type::kOther, 8}};

/// A name without control characters, and not too long.
std::string printable(const std::string& text) {
  constexpr std::size_t kLongest = 100;
  std::string out;
  for (const char c : text.substr(0, kLongest)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out;
}

/// Makes the errors of one file.
struct Fault {
  const std::string& file;
  [[noreturn]] void damaged(const std::string& what) const {
    throw ModelError(fmt::format("{}: {}; it is damaged or no safetensors file, copy or download it again", file, what));
  }
};

std::optional<std::uint64_t> product(const std::vector<std::int64_t>& shape, std::uint64_t bytes) {
  for (const std::int64_t n : shape) {
    const auto factor = static_cast<std::uint64_t>(n);
    if (factor != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

/// The header as JSON. Duplicate keys are refused, since one would hide a tensor.
Json parse_header(std::span<const std::byte> bytes, const Fault& fault) {
  std::set<std::string> keys;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  Json header = Json::parse(text, text + bytes.size(), watch, false);
  if (header.is_discarded() || !header.is_object()) fault.damaged("its header is no JSON object");
  if (!twice.empty()) fault.damaged(fmt::format("tensor {} is there twice", printable(twice)));
  return header;
}

std::uint64_t whole_number(const Json& value, const Fault& fault, const std::string& tensor, const char* what) {
  if (!value.is_number_unsigned()) fault.damaged(fmt::format("tensor {}: its {} is no whole number", tensor, what));
  return value.get<std::uint64_t>();
}

Tensor read_tensor(const std::string& key, const Json& entry, std::span<const std::byte> data, const Fault& fault) {
  const std::string shown = printable(key);
  const auto require = [&](bool holds, const char* what) {
    if (!holds) fault.damaged(fmt::format("tensor {}: {}", shown, what));
  };
  require(entry.is_object() && entry.contains("dtype") && entry.contains("shape") && entry.contains("data_offsets"),
          "it has no type, shape or place");
  const Json &type = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  require(type.is_string() && shape.is_array() && offsets.is_array() && offsets.size() == 2 && shape.size() <= 8,
          "its type, shape or place cannot be");
  Tensor tensor{.name = key, .type = Type::kOther, .type_name = type.get<std::string>(), .shape = {}, .bytes = {}};
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NamedType& t) { return tensor.type_name == t.name; });
  if (known == std::end(kTypes)) fault.damaged(fmt::format("tensor {}: its type '{}' is not known", shown, printable(tensor.type_name)));
  tensor.type = known->type;
  for (const Json& n : shape) {
    const std::uint64_t length = whole_number(n, fault, shown, "shape");
    require(length <= std::numeric_limits<std::int64_t>::max(), "its shape cannot be");
    tensor.shape.push_back(static_cast<std::int64_t>(length));
  }
  const std::uint64_t begin = whole_number(offsets[0], fault, shown, "place"), end = whole_number(offsets[1], fault, shown, "place");
  require(begin <= end && end <= data.size(), "it lies beyond the file's end");
  require(product(tensor.shape, known->bytes) == end - begin, "its shape is not that of its bytes");
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

template <class T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

float from_f16(std::uint16_t bits) {
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  if (exponent == 0) return sign * fraction * 0x1p-24f;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  return sign * (1 + fraction * 0x1p-10f) * std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 112) << 23);
}

}  // namespace

std::int64_t Tensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t length : shape) n *= length;
  return n;
}

std::vector<float> Tensor::floats() const {
  std::vector<float> values(static_cast<std::size_t>(elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (type) {
      case Type::kF16:
        values[i] = from_f16(element<std::uint16_t>(bytes, i));
        break;
      case Type::kBF16:
        values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(element<std::uint16_t>(bytes, i)) << 16);
        break;
      case Type::kF32:
        values[i] = element<float>(bytes, i);
        break;
      default:
        throw ModelError(fmt::format("tensor {} is of type {}, not F16, BF16 or F32", printable(name), type_name));
    }
  }
  return values;
}

std::vector<std::int64_t> Tensor::integers() const {
  if (type != Type::kI32 && type != Type::kI64)
    throw ModelError(fmt::format("tensor {} is of type {}, not I32 or I64", printable(name), type_name));
  std::vector<std::int64_t> values(static_cast<std::size_t>(elements()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = type == Type::kI32 ? element<std::int32_t>(bytes, i) : element<std::int64_t>(bytes, i);
  return values;
}

File File::open(const std::string& path) {
  File file;
  file.name_ = path;
  file.mapping_ = std::make_unique<MappedFile>(path);
  file.read();
  return file;
}

File File::parse(std::span<const std::byte> bytes, const std::string& name) {
  File file;
  file.name_ = name;
  file.mapping_ = std::make_unique<MappedFile>(bytes);
  file.read();
  return file;
}

void File::read() {
  const Fault fault{name_};
  const std::span<const std::byte> all = mapping_->bytes;
  if (all.size() < 8) fault.damaged("it ends before its header");
  const auto length = element<std::uint64_t>(all, 0);
  if (length > all.size() - 8 || length > kLongestHeader) fault.damaged("its header is longer than the file");
  const std::span<const std::byte> data = all.subspan(8 + length);
  const Json header = parse_header(all.subspan(8, length), fault);
  for (const auto& [key, entry] : header.items()) {
    if (key != "__metadata__") {
      tensors_.push_back(read_tensor(key, entry, data, fault));
      continue;
    }
    if (!entry.is_object()) fault.damaged("its metadata are no texts");
    for (const auto& [name, text] : entry.items()) {
      if (!text.is_string()) fault.damaged("its metadata are no texts");
      metadata_[name] = text.get<std::string>();
    }
  }
  check_places(data.size());
}

/// There must be no bytes between tensors or after them.
void File::check_places(std::size_t data_bytes) const {
  const Fault fault{name_};
  std::vector<const Tensor*> by_place;
  for (const Tensor& tensor : tensors_) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(), [](const Tensor* a, const Tensor* b) {
    return std::pair(a->bytes.data(), a->bytes.size()) < std::pair(b->bytes.data(), b->bytes.size());
  });
  const std::byte* next = mapping_->bytes.data() + mapping_->bytes.size() - data_bytes;
  for (const Tensor* tensor : by_place) {
    if (tensor->bytes.data() != next)
      fault.damaged(fmt::format("tensor {}: it does not begin where the one before it ends", printable(tensor->name)));
    next += tensor->bytes.size();
  }
  if (next != mapping_->bytes.data() + mapping_->bytes.size()) fault.damaged("there are bytes behind its tensors");
}

const Tensor* File::find(std::string_view tensor) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), tensor, [](const Tensor& t, std::string_view n) { return t.name < n; });
  return found != tensors_.end() && found->name == tensor ? &*found : nullptr;
}

}  // namespace yamata::safetensors
