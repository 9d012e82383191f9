#pragma once
// The format of each tensor: the kinds of file that `quantize` writes, and their rules.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/tensor_type.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata::quantize {

/// Kinds of file, numbered as GGUF's general.file_type.
enum class Kind : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q8_0 = 7,
  Q5_0 = 8,
  Q5_1 = 9,
  Q2_K = 10,
  Q3_K_S = 11,
  Q3_K_M = 12,
  Q3_K_L = 13,
  Q4_K_S = 14,
  Q4_K_M = 15,
  Q5_K_S = 16,
  Q5_K_M = 17,
  Q6_K = 18,
  Q2_K_S = 21,
  IQ4_NL = 25,
  IQ4_XS = 30,
  BF16 = 32,
  MXFP4_MOE = 38,
};

/// The kind with this name, case-insensitive; Q3_K, Q4_K and Q5_K mean their _M.
std::optional<Kind> find_kind(std::string_view name);
std::string kind_name(Kind kind);
/// All names, separated by ", ".
std::string kind_names();
/// The tensor format with this name, case-insensitive, among the formats to which floats can be quantized.
std::optional<TensorType> find_tensor_type(std::string_view name);
/// The format of most tensors of the kind.
TensorType base_type(Kind kind);
/// The error for a tensor whose format needs an importance matrix.
bool needs_importance(Kind kind, TensorType type, std::string_view tensor);

struct MixOptions {
  Kind kind = Kind::Q4_K_M;
  bool pure = false;          ///< the base type for every tensor
  bool leave_output = false;  ///< output.weight is not changed
  bool has_importance = false;
  std::optional<TensorType> output_type, embedding_type;
};

/// A tensor's format before its shape is looked at, and after.
struct Choice {
  TensorType wanted, type;  ///< they differ if rows are not whole blocks of `wanted`
};

/// The format of every tensor of a model. Rules count the tensors of a kind, so call choose() in order.
class Mix {
 public:
  /// `tensors` in the order in which choose() is called. Throws ModelError if Yamata does not support the model.
  Mix(const gguf::File& file, const std::vector<const gguf::Tensor*>& tensors, const MixOptions& options);
  Choice choose(const gguf::Tensor& tensor);

 private:
  TensorType mixed(const gguf::Tensor& tensor);
  TensorType output() const;
  TensorType attention_value(int i) const;
  TensorType feed_forward_down(int i) const;
  TensorType attention_output() const;

  const MixOptions options_;
  const TensorType base_;
  int layers_ = 0, values_ = 0;  ///< of the model; tensors of attention values
  bool tied_ = true, grouped_ = false, is_70b_ = false, has_experts_ = false;
  int next_value_ = 0, next_down_ = 0;
};

/// Whether a tensor with this name is a lookup table by token.
bool is_embedding(std::string_view tensor);
/// Whether quantizing changes this tensor: weight matrices, except those of norms and routers.
bool is_quantizable(const gguf::Tensor& tensor);

}  // namespace yamata::quantize
