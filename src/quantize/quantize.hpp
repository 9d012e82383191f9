#pragma once
// A whole model file to another format.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "node/cpu/thread_pool.hpp"
#include "src/gguf/gguf.hpp"
#include "src/gguf/writer.hpp"
#include "src/quantize/imatrix.hpp"
#include "src/quantize/mix.hpp"

namespace yamata::quantize {

struct Request {
  MixOptions mix;  ///< has_importance follows from `imatrix`
  bool allow_requantize = false;
  const Imatrix* imatrix = nullptr;
};

struct PlannedTensor {
  const gguf::Tensor* tensor;
  TensorType type;          ///< to be
  const float* importance;  ///< a weight per column, or null

  bool changes() const { return type != tensor->type; }
};

/// What is to be done, known before anything is written.
struct Plan {
  Request request;
  std::vector<PlannedTensor> tensors;  ///< in the order of the new file: by layer, then by name
  std::vector<std::string> notes;      ///< what the user should know, a line each
  std::uint64_t bytes_before = 0, bytes_after = 0;
};

/// Decides what becomes of every tensor. Throws ModelError where the model is of a kind Yamata does not run, where it would be quantized
/// a second time without leave, or where the importance matrix does not fit or is missing. Refers to `file` and the request's matrix.
Plan make_plan(const gguf::File& file, const Request& request);

/// Writes the planned file to `sink`, front to back; the bytes depend on neither threads nor machine. `progress` is told the share
/// that is done, on the calling thread; what it throws ends the work. Throws ModelError naming a tensor with values that are no numbers
/// or that the format cannot hold.
void write_quantized(const gguf::File& file, const Plan& plan, ThreadPool& pool, const gguf::Writer::Sink& sink,
                     const std::function<void(double)>& progress);

}  // namespace yamata::quantize
