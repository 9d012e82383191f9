#include "src/quantize/quantize.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>
#include <tuple>

#include "node/cpu/kernels/kernels.hpp"
#include "node/error.hpp"
#include "src/quantize/row.hpp"

namespace yamata::quantize {
namespace {

constexpr std::uint32_t kQuantizationVersion = 2;  ///< of the block formats, for general.quantization_version
constexpr std::int64_t kPieceElements = 1 << 22;   ///< elements that are quantized together and then written: at most 16 MiB
constexpr std::size_t kMaxText = 127;              ///< bytes of a text in quantize.* metadata; the limit of other programs

/// The layer in a tensor's name; -1 if there is none.
int layer_of(const std::string& name) {
  int layer = -1;
  std::sscanf(name.c_str(), "blk.%d.", &layer);
  return layer;
}

std::vector<const gguf::Tensor*> in_order(const gguf::File& file) {
  std::vector<const gguf::Tensor*> tensors;
  for (const gguf::Tensor& tensor : file.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const gguf::Tensor* a, const gguf::Tensor* b) {
    return std::forward_as_tuple(layer_of(a->name), a->name) < std::forward_as_tuple(layer_of(b->name), b->name);
  });
  return tensors;
}

/// Chooses a type for each tensor. A note is reported once for all tensors that it concerns.
class Planner {
 public:
  Planner(const gguf::File& file, Plan& plan) : file_(file), plan_(plan) {}

  void add(const gguf::Tensor& tensor, const Choice& choice) {
    if (choice.wanted != choice.type) {
      said_[fmt::format("rows of {} are not whole blocks of {}: {} instead", tensor.cols(), traits(choice.wanted).name,
                        traits(choice.type).name)]
          .push_back(tensor.name);
    }
    PlannedTensor planned{&tensor, choice.type, nullptr};
    if (planned.changes()) {
      refuse_second_time(tensor);
      planned.importance = importance_of(tensor);
    }
    const Kind kind = plan_.request.mix.kind;
    if (planned.changes() && needs_importance(kind, planned.type, tensor.name) && !planned.importance) {
      throw ModelError(fmt::format("{} needs an importance matrix with {}; give one with --imatrix FILE, or quantize to Q2_K",
                                   kind_name(kind), tensor.name));
    }
    plan_.bytes_before += tensor.bytes;
    plan_.bytes_after += static_cast<std::size_t>(tensor.rows()) * row_bytes(planned.type, tensor.cols());
    plan_.tensors.push_back(planned);
  }

  void write_notes() {
    constexpr std::size_t kNamed = 3;
    for (const auto& [what, tensors] : said_) {
      const auto named = std::span(tensors).first(std::min(tensors.size(), kNamed));
      plan_.notes.push_back(fmt::format("{}: {}{}", what, fmt::join(named, ", "),
                                        tensors.size() > kNamed ? fmt::format(" and {} more", tensors.size() - kNamed) : ""));
    }
  }

 private:
  void refuse_second_time(const gguf::Tensor& tensor) const {
    if (traits(tensor.type).block_elements == 1 || plan_.request.allow_requantize) return;
    throw ModelError(
        fmt::format("{} is already quantized ({} is {}), and quantizing it again loses quality; quantize the F32, F16 or BF16 model, or "
                    "give --allow-requantize",
                    file_.name(), tensor.name, traits(tensor.type).name));
  }
  /// The importance of the tensor's columns; null if the importance matrix does not have the tensor.
  const float* importance_of(const gguf::Tensor& tensor) {
    const Imatrix* imatrix = plan_.request.imatrix;
    if (!imatrix) return nullptr;
    const auto found = imatrix->values.find(tensor.name);
    if (found == imatrix->values.end()) {
      said_[fmt::format("{} has no values for some tensors, quantized without it", imatrix->path)].push_back(tensor.name);
      return nullptr;
    }
    if (found->second.size() == static_cast<std::size_t>(tensor.cols())) return found->second.data();
    if (!is_embedding(tensor.name)) {
      throw ModelError(fmt::format("{} has {} values for {}, which has {} columns; it was made with another model", imatrix->path,
                                   found->second.size(), tensor.name, tensor.cols()));
    }
    said_[fmt::format("{} does not fit some tensors, quantized without it", imatrix->path)].push_back(tensor.name);
    return nullptr;
  }

  const gguf::File& file_;
  Plan& plan_;
  std::map<std::string, std::vector<std::string>> said_;  // notes, and the tensors that they concern
};

/// Copies the source's metadata, with the changes made by quantizing.
void set_metadata(const gguf::File& file, const Request& request, gguf::Writer& writer) {
  for (const gguf::RawPair& pair : file.raw_metadata()) writer.set_raw(pair.key, pair.value);
  writer.set_u32("general.quantization_version", kQuantizationVersion);
  writer.set_u32("general.file_type", static_cast<std::uint32_t>(request.mix.kind));
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) writer.remove(key);
  if (!request.imatrix) return;
  const Imatrix& imatrix = *request.imatrix;
  writer.set_string("quantize.imatrix.file", std::string_view(imatrix.path).substr(0, kMaxText));
  if (!imatrix.datasets.empty()) writer.set_string("quantize.imatrix.dataset", std::string_view(imatrix.datasets[0]).substr(0, kMaxText));
  writer.set_u32("quantize.imatrix.entries_count", static_cast<std::uint32_t>(imatrix.values.size()));
  if (imatrix.chunks > 0) writer.set_u32("quantize.imatrix.chunks_count", static_cast<std::uint32_t>(imatrix.chunks));
}

/// Quantizes some rows of one tensor on all threads.
class Piece {
 public:
  Piece(const PlannedTensor& planned, ThreadPool& pool) : planned_(planned), pool_(pool), floats_(static_cast<std::size_t>(pool.size())) {}

  /// Rows [begin, end) as blocks of the new type; valid until the next call.
  std::span<const std::byte> quantize(std::int64_t begin, std::int64_t end) {
    const gguf::Tensor& tensor = *planned_.tensor;
    const auto cols = static_cast<std::size_t>(tensor.cols());
    const std::size_t source_bytes = row_bytes(tensor.type, tensor.cols()), bytes = row_bytes(planned_.type, tensor.cols());
    blocks_.resize(static_cast<std::size_t>(end - begin) * bytes);
    std::atomic<std::int64_t> next{begin};
    pool_.start([&](int thread) {
      std::vector<float>& x = floats_[static_cast<std::size_t>(thread)];
      x.resize(cols);
      for (std::int64_t row; (row = next.fetch_add(1)) < end;) {
        cpu::dequantize(tensor.type, tensor.data + static_cast<std::size_t>(row) * source_bytes, tensor.cols(), x.data());
        if (!std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); })) throw OutOfRange{};
        quantize_row(planned_.type, x, planned_.importance, blocks_.data() + static_cast<std::size_t>(row - begin) * bytes);
      }
    });
    pool_.wait();
    return blocks_;
  }

 private:
  const PlannedTensor& planned_;
  ThreadPool& pool_;
  std::vector<std::vector<float>> floats_;  // per thread, a row
  std::vector<std::byte> blocks_;
};

}  // namespace

Plan make_plan(const gguf::File& file, const Request& request) {
  Plan plan;
  plan.request = request;
  plan.request.mix.has_importance = request.imatrix != nullptr;
  const std::vector<const gguf::Tensor*> tensors = in_order(file);
  Mix mix(file, tensors, plan.request.mix);
  Planner planner(file, plan);
  for (const gguf::Tensor* tensor : tensors) planner.add(*tensor, mix.choose(*tensor));
  planner.write_notes();
  return plan;
}

void write_quantized(const gguf::File& file, const Plan& plan, ThreadPool& pool, const gguf::Writer::Sink& sink,
                     const std::function<void(double)>& progress) {
  gguf::Writer writer(sink, file.alignment());
  set_metadata(file, plan.request, writer);
  for (const PlannedTensor& planned : plan.tensors) writer.add_tensor(planned.tensor->name, planned.type, planned.tensor->shape);
  writer.begin();
  std::uint64_t done = 0;
  for (const PlannedTensor& planned : plan.tensors) {
    const gguf::Tensor& tensor = *planned.tensor;
    const std::int64_t rows = tensor.rows(), step = std::max<std::int64_t>(1, kPieceElements / tensor.cols());
    const std::size_t row_bytes = tensor.bytes / static_cast<std::size_t>(rows);
    Piece piece(planned, pool);
    for (std::int64_t row = 0; row < rows; row += step) {
      const std::int64_t end = std::min(rows, row + step);
      const auto source = std::span(tensor.data, tensor.bytes)
                              .subspan(static_cast<std::size_t>(row) * row_bytes, static_cast<std::size_t>(end - row) * row_bytes);
      try {
        writer.data(planned.changes() ? piece.quantize(row, end) : source);
      } catch (const OutOfRange&) {
        throw ModelError(fmt::format("{}: tensor {} holds a value that is no number or too large for {}; convert the model again",
                                     file.name(), tensor.name, traits(planned.type).name));
      }
      done += source.size();
      progress(static_cast<double>(done) / static_cast<double>(plan.bytes_before));
    }
  }
}

}  // namespace yamata::quantize
