#pragma once
// Activation functions of the feed-forward.
namespace yamata {

/// Functions of a gate g and, if there is one, an up value u:
enum class Activation {
  kNone,         ///< no activation: the value as it is
  kSilu,         ///< g / (1 + exp(-g)), times u
  kGeluTanh,     ///< GELU in its tanh form, g / (1 + exp(-2 sqrt(2/pi) (g + 0.044715 g^3))), times u
  kClampedSilu,  ///< gpt-oss: with g at most 7 and u from -7 to 7, g / (1 + exp(-1.702 g)) times (u + 1)
  kSquaredRelu,  ///< the square of g, or 0 if g is below 0, times u
};

}  // namespace yamata
