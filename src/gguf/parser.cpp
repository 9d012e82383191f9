// Parses bytes into a File: every count, length, offset and type is checked before it is used.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "node/error.hpp"
#include "node/lost_pages.hpp"
#include "src/gguf/gguf.hpp"
#include "src/gguf/mapping.hpp"

namespace yamata::gguf {
namespace {

enum class ValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint32_t kMaxDimensions = 4;

/// A name from the file for use in a message: without control characters, and not too long.
std::string shown(std::string_view name) {
  constexpr std::size_t kMaxLength = 80;
  std::string text;
  for (const char c : name.substr(0, kMaxLength)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return name.size() > kMaxLength ? text + "..." : text;
}

/// The least number of bytes of an element of this type in the file.
std::size_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool:
      return 1;
    case ValueType::U16:
    case ValueType::I16:
      return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32:
      return 4;
    default:
      return 8;
  }
}

/// Tensors may also be tables of integers; null: the type is not one of these.
const TypeTraits* find_integers(std::uint32_t raw) {
  static constexpr TypeTraits kI32{"I32", 1, 4}, kI64{"I64", 1, 8};
  return raw == 26 ? &kI32 : raw == 27 ? &kI64 : nullptr;
}

}  // namespace

/// Reads one part of a model into a File.
class Parser {
 public:
  Parser(File& file, File::Mapping& mapping, std::string name) : file_(file), mapping_(mapping), name_(std::move(name)) {}

  void parse() {
    read_header();
    for (std::uint64_t i = 0; i < metadata_count_; ++i) read_pair();
    check_alignment();
    if (is_first_part()) file_.alignment_ = alignment_;
    const std::size_t first = file_.tensors_.size();
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < tensor_count_; ++i) offsets.push_back(read_tensor());
    mapping_.header_bytes = at_;
    place_tensors(first, offsets);
  }

  /// The File of one part.
  static void add_part(File& file, std::unique_ptr<File::Mapping> mapping, const std::string& name) {
    file.mappings_.push_back(std::move(mapping));
    Parser(file, *file.mappings_.back(), name).parse();
  }
  static File make(const std::string& name) {
    File file;
    file.name_ = name;
    return file;
  }
  static void set_metadata(File& file, std::map<std::string, Value> metadata) { file.metadata_ = std::move(metadata); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ModelError(fmt::format("{}: {} at offset {}; the file is damaged, copy or download it again", name_, what, at_));
  }
  bool is_first_part() const { return file_.mappings_.size() == 1; }
  std::span<const std::byte> readable() const { return mapping_.readable(); }
  std::size_t left() const { return readable().size() - at_; }
  const std::byte* take(std::uint64_t n, const char* what) {
    if (n > left()) fail(fmt::format("the file ends inside {}", what));
    const std::byte* p = readable().data() + at_;
    at_ += static_cast<std::size_t>(n);
    return p;
  }
  template <class T>
  T get(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }
  std::string get_string(const char* what) {
    const auto length = get<std::uint64_t>(what);
    const std::byte* p = take(length, what);
    return {reinterpret_cast<const char*>(p), static_cast<std::size_t>(length)};
  }
  /// Reads a count of things that need at least `least` bytes each.
  std::uint64_t get_count(std::size_t least, const char* what) {
    const auto n = get<std::uint64_t>(what);
    if (n > left() / least) fail(fmt::format("{} of {} is more than the file can hold", what, n));
    return n;
  }

  /// Its first eight bytes are the length of a header, which is JSON.
  bool is_safetensors() const { return readable().size() > 9 && readable()[8] == std::byte{'{'} && readable()[7] == std::byte{0}; }

  void read_header() {
    if (readable().size() < 4 || std::memcmp(readable().data(), "GGUF", 4) != 0) {
      const char* const remedy =
          is_safetensors() ? "draft heads are for --heads of yamata run; convert a model to GGUF" : "convert or download the model as GGUF";
      throw ModelError(fmt::format("{} is not a GGUF file{}; {}", name_, is_safetensors() ? ", but a safetensors file" : "", remedy));
    }
    at_ = 4;
    file_.version_ = get<std::uint32_t>("the header");
    if (file_.version_ == 0x02000000u || file_.version_ == 0x03000000u)
      throw ModelError(fmt::format("{} is a big-endian GGUF file, which is not supported; convert it to a little-endian one", name_));
    if (file_.version_ != 2 && file_.version_ != 3) {
      throw ModelError(fmt::format("{} has GGUF version {}, but only versions 2 and 3 can be read; convert the model to version 3", name_,
                                   file_.version_));
    }
    tensor_count_ = get_count(24, "tensor count");
    metadata_count_ = get_count(13, "metadata count");
  }

  void read_pair() {
    const std::string key = get_string("a metadata key");
    const std::size_t begin = at_;
    const auto type = get_type();
    Value value = type == ValueType::Array ? read_array(key) : read_scalar(type);
    if (is_first_part()) file_.raw_metadata_.push_back({key, readable().subspan(begin, at_ - begin)});
    if (!file_.metadata_.emplace(key, std::move(value)).second) fail(fmt::format("metadata key {} stands twice", shown(key)));
  }
  ValueType get_type() {
    const auto raw = get<std::uint32_t>("a metadata type");
    if (raw > static_cast<std::uint32_t>(ValueType::F64)) fail(fmt::format("unknown metadata type {}", raw));
    return static_cast<ValueType>(raw);
  }
  Value read_scalar(ValueType type) {
    constexpr const char* kWhat = "a metadata value";
    switch (type) {
      case ValueType::U8:
        return static_cast<std::uint64_t>(get<std::uint8_t>(kWhat));
      case ValueType::I8:
        return static_cast<std::int64_t>(get<std::int8_t>(kWhat));
      case ValueType::U16:
        return static_cast<std::uint64_t>(get<std::uint16_t>(kWhat));
      case ValueType::I16:
        return static_cast<std::int64_t>(get<std::int16_t>(kWhat));
      case ValueType::U32:
        return static_cast<std::uint64_t>(get<std::uint32_t>(kWhat));
      case ValueType::I32:
        return static_cast<std::int64_t>(get<std::int32_t>(kWhat));
      case ValueType::U64:
        return get<std::uint64_t>(kWhat);
      case ValueType::I64:
        return get<std::int64_t>(kWhat);
      case ValueType::F32:
        return static_cast<double>(get<float>(kWhat));
      case ValueType::F64:
        return get<double>(kWhat);
      case ValueType::Bool:
        return get<std::uint8_t>(kWhat) != 0;
      case ValueType::String:
        return get_string(kWhat);
      case ValueType::Array:
        break;
    }
    fail("an array inside an array");
  }
  Value read_array(const std::string& key) {
    const ValueType type = get_type();
    if (type == ValueType::Array)
      throw ModelError(
          fmt::format("{}: metadata {} is an array of arrays, which is not supported; write the file without it", name_, shown(key)));
    const std::uint64_t count = get_count(least_bytes(type), "array length");
    switch (type) {
      case ValueType::String:
        return gather<std::string>(type, count);
      case ValueType::Bool:
        return gather<bool>(type, count);
      case ValueType::F32:
      case ValueType::F64:
        return gather<double>(type, count);
      case ValueType::I8:
      case ValueType::I16:
      case ValueType::I32:
      case ValueType::I64:
        return gather<std::int64_t>(type, count);
      default:
        return gather<std::uint64_t>(type, count);
    }
  }
  template <class T>
  std::vector<T> gather(ValueType type, std::uint64_t count) {
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(std::get<T>(read_scalar(type)));
    return values;
  }

  void check_alignment() {
    const auto value = file_.integer("general.alignment");
    if (!value) return;
    if (*value < 8 || *value > (1 << 20) || (*value & (*value - 1)) != 0)
      fail(fmt::format("general.alignment is {}, not a power of two", *value));
    alignment_ = static_cast<std::uint64_t>(*value);
  }

  /// One entry of the tensor table; returns its offset in the data.
  std::uint64_t read_tensor() {
    Tensor tensor;
    tensor.name = get_string("a tensor's name");
    const std::uint64_t elements = read_shape(tensor);
    const auto raw_type = get<std::uint32_t>("a tensor's type");
    const TypeTraits* type = find_integers(raw_type);
    tensor.integer_bytes = type ? static_cast<int>(type->block_bytes) : 0;
    if (!type) type = find_type(raw_type);
    if (!type) {
      throw ModelError(fmt::format("{}: tensor {} has type {}, which is not supported; quantize the model to another type", name_,
                                   shown(tensor.name), raw_type));
    }
    tensor.type = tensor.integer_bytes > 0 ? TensorType::F32 : static_cast<TensorType>(raw_type);
    if (static_cast<std::uint64_t>(tensor.cols()) % type->block_elements != 0) {
      fail(fmt::format("tensor {} has rows of {} elements, not whole blocks of {} of type {},", shown(tensor.name), tensor.cols(),
                       type->block_elements, type->name));
    }
    const std::uint64_t blocks = elements / type->block_elements;
    if (blocks > std::numeric_limits<std::uint64_t>::max() / type->block_bytes)
      fail(fmt::format("tensor {} has a bad shape", shown(tensor.name)));
    tensor.bytes = static_cast<std::size_t>(blocks * type->block_bytes);
    tensor.data = nullptr;
    const auto offset = get<std::uint64_t>("a tensor's offset");
    if (!file_.index_.emplace(tensor.name, file_.tensors_.size()).second) fail(fmt::format("tensor {} stands twice", shown(tensor.name)));
    file_.tensors_.push_back(std::move(tensor));
    return offset;
  }
  /// Number of elements; at least one dimension, none of them 0.
  std::uint64_t read_shape(Tensor& tensor) {
    const auto dimensions = get<std::uint32_t>("a tensor's dimensions");
    if (dimensions == 0 || dimensions > kMaxDimensions) fail(fmt::format("tensor {} has {} dimensions", shown(tensor.name), dimensions));
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto extent = get<std::uint64_t>("a tensor's dimensions");
      if (extent == 0 || extent > static_cast<std::uint64_t>(INT64_MAX) / elements)
        fail(fmt::format("tensor {} has a bad shape", shown(tensor.name)));
      elements *= extent;
      tensor.shape.push_back(static_cast<std::int64_t>(extent));
    }
    return elements;
  }

  void place_tensors(std::size_t first, const std::vector<std::uint64_t>& offsets) {
    const std::uint64_t size = mapping_.bytes.size();
    const std::uint64_t data = (at_ + alignment_ - 1) / alignment_ * alignment_;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      Tensor& tensor = file_.tensors_[first + i];
      if (offsets[i] % alignment_ != 0) {
        throw ModelError(
            fmt::format("{}: tensor {} lies at offset {}, not a multiple of {}; the file is damaged, copy or download it again", name_,
                        shown(tensor.name), offsets[i], alignment_));
      }
      if (data > size || offsets[i] > size - data || tensor.bytes > size - data - offsets[i]) {
        throw ModelError(fmt::format("{}: tensor {} ends beyond the file's {} bytes; the file is cut, copy or download it again", name_,
                                     shown(tensor.name), size));
      }
      tensor.data = mapping_.bytes.data() + data + offsets[i];
    }
    check_overlaps(first);
  }
  /// Tensors that share bytes would be loaded without an error, but give wrong results.
  void check_overlaps(std::size_t first) const {
    std::vector<const Tensor*> placed;
    for (std::size_t i = first; i < file_.tensors_.size(); ++i) placed.push_back(&file_.tensors_[i]);
    std::sort(placed.begin(), placed.end(), [](const Tensor* a, const Tensor* b) { return a->data < b->data; });
    for (std::size_t i = 1; i < placed.size(); ++i) {
      if (placed[i - 1]->data + placed[i - 1]->bytes > placed[i]->data) {
        throw ModelError(fmt::format("{}: tensors {} and {} overlap; the file is damaged, copy or download it again", name_,
                                     shown(placed[i - 1]->name), shown(placed[i]->name)));
      }
    }
  }

  File& file_;
  File::Mapping& mapping_;
  std::string name_;
  std::size_t at_ = 0;
  std::uint64_t tensor_count_ = 0, metadata_count_ = 0, alignment_ = kDefaultAlignment;
};

File File::parse(std::span<const std::byte> bytes, const std::string& name) {
  File file = Parser::make(name);
  Parser::add_part(file, std::make_unique<Mapping>(bytes), name);
  return file;
}

File File::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  File file = Parser::make(name);
  Parser::add_part(file, std::make_unique<Mapping>(name), name);
  const std::int64_t parts = file.integer("split.count").value_or(1);
  require_pages();
  if (parts <= 1) return file;
  if (parts > 99999 || file.integer("split.no").value_or(0) != 0) {
    throw ModelError(
        fmt::format("{} is not the first part of a split model; give the file that ends in -00001-of-{:05}.gguf", name, parts));
  }
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", parts);
  if (!name.ends_with(ending))
    throw ModelError(fmt::format("{} is the first of {} parts but its name does not end in {}; name the parts so", name, parts, ending));
  const std::string stem = name.substr(0, name.size() - ending.size());
  std::map<std::string, Value> metadata = file.metadata_;  // the first part's metadata describe the model
  for (std::int64_t i = 2; i <= parts; ++i) {
    const std::string part = fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, parts);
    Parser::set_metadata(file, {});
    Parser::add_part(file, std::make_unique<Mapping>(part), part);
    if (file.integer("split.no").value_or(-1) != i - 1) throw ModelError(fmt::format("{} is not part {} of its model", part, i));
  }
  Parser::set_metadata(file, std::move(metadata));
  require_pages();
  return file;
}

File File::open_incomplete(const std::vector<IncompletePart>& parts, std::shared_ptr<const Presence> presence, const std::string& name) {
  File file = Parser::make(name);
  std::map<std::string, Value> metadata;
  for (const IncompletePart& part : parts) {
    Parser::set_metadata(file, {});
    auto mapping = std::make_unique<Mapping>(part.path);
    mapping->header = part.header;
    Parser::add_part(file, std::move(mapping), name);
    if (&part == &parts.front()) metadata = file.metadata_;
  }
  Parser::set_metadata(file, std::move(metadata));
  file.presence_ = std::move(presence);
  return file;
}

std::uint64_t File::fingerprint() const {
  if (presence_) return presence_->fingerprint();
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over 8-byte words
  const auto mix = [&](const std::byte* p, std::size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
      std::uint64_t word;
      std::memcpy(&word, p, 8);
      hash = (hash ^ word) * 0x100000001b3u;
      hash ^= hash >> 29;
    }
    for (; n > 0; ++p, --n) hash = (hash ^ static_cast<std::uint64_t>(*p)) * 0x100000001b3u;
  };
  for (const auto& mapping : mappings_) mix(mapping->bytes.data(), static_cast<std::size_t>(mapping->header_bytes));
  constexpr std::size_t kPiece = 64, kPieces = 4;
  for (const Tensor& tensor : tensors_) {
    for (std::size_t i = 0; i < kPieces; ++i) {
      const std::size_t at = tensor.bytes > kPiece ? (tensor.bytes - kPiece) * i / (kPieces - 1) : 0;
      mix(tensor.data + at, std::min(kPiece, tensor.bytes - at));
    }
  }
  require_pages();
  return hash;
}

}  // namespace yamata::gguf
