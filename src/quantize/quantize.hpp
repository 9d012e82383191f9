#pragma once
// Converts a whole model file to another format.
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
  TensorType type;          ///< in the new file
  const float* importance;  ///< a weight per column, or null

  bool changes() const { return type != tensor->type; }
};

/// The plan, made before anything is written.
struct Plan {
  Request request;
  std::vector<PlannedTensor> tensors;  ///< in the order of the new file: by layer, then by name
  std::vector<std::string> notes;      ///< notes for the user, a line each
  std::uint64_t bytes_before = 0, bytes_after = 0;
};

/// Decides the format of every tensor. Throws ModelError if Yamata does not support the model, if it is already quantized and requantizing
/// is not allowed, or if the importance matrix does not fit or is missing. The plan refers to `file` and the request's matrix.
Plan make_plan(const gguf::File& file, const Request& request);

/// Writes the planned file to `sink` sequentially; the bytes depend on neither threads nor machine. Calls `progress` with the completed
/// share, on the calling thread; an exception of it ends the work. Throws ModelError with the name of a tensor that has NaN values or
/// values that the format cannot hold.
void write_quantized(const gguf::File& file, const Plan& plan, ThreadPool& pool, const gguf::Writer::Sink& sink,
                     const std::function<void(double)>& progress);

}  // namespace yamata::quantize
