#include "launch/commands/quantize_options.hpp"

#include <fmt/format.h>

#include "launch/program/options/flag_values.hpp"
#include "node/counted.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMinWords = 3, kMaxWords = 4;

std::optional<TensorType> tensor_type(const GivenFlags& r, const char* flag) {
  if (!r.given(flag)) return std::nullopt;
  const auto name = r.text(flag);
  const auto type = quantize::find_tensor_type(name);
  if (!type)
    throw UsageError(fmt::format("--{}: '{}' is no tensor type; give one such as F16, Q8_0 or Q6_K, without _S, _M or _L", flag, name));
  return type;
}

}  // namespace

Flags quantize_flags() {
  Flags flags("quantize", fmt::format("Writes the model file SRC to DST in another format.\nTYPE: {}", quantize::kind_names()),
              "SRC DST TYPE [NTHREADS] [flags]");
  auto add = flags.group("");
  add("-h, --help", "Print this help");
  add("-t, --threads", "Threads (0: one per core)", FlagKind::kInt, "N", "0");
  add("--imatrix", "Importance matrix of this model, made by llama-imatrix (GGUF or .dat)", FlagKind::kFile, "FILE");
  add("--pure", "Use the same type for every matrix, not the mix of TYPE");
  add("--output-tensor-type", "Type of output.weight, or of embeddings that are also the output", FlagKind::kWord, "TYPE");
  add("--token-embedding-type", "Type of the token embeddings", FlagKind::kWord, "TYPE");
  add("--leave-output-tensor", "Do not change output.weight");
  add("--allow-requantize", "Accept a model that is already quantized; this loses quality");
  return flags;
}

QuantizeOptions read_quantize(const GivenFlags& r) {
  const std::vector<std::string>& words = r.words();
  if (words.size() < kMinWords || words.size() > kMaxWords)
    throw UsageError(
        fmt::format("{}, where there are three or four: yamata quantize SRC DST TYPE [NTHREADS]", counted(std::ssize(words), "word")));
  QuantizeOptions o;
  o.source = words[0];
  o.destination = words[1];
  if (o.source.empty() || o.destination.empty()) throw UsageError("SRC and DST need a file name: yamata quantize SRC DST TYPE [NTHREADS]");
  const auto kind = quantize::find_kind(words[2]);
  if (!kind) throw UsageError(fmt::format("unknown type '{}'; types are {}", words[2], quantize::kind_names()));
  o.mix.kind = *kind;
  o.mix.pure = r.given("pure");
  o.mix.leave_output = r.given("leave-output-tensor");
  o.mix.output_type = tensor_type(r, "output-tensor-type");
  if (o.mix.leave_output && o.mix.output_type)
    throw UsageError("--leave-output-tensor keeps output.weight, and --output-tensor-type changes it; leave one of them out");
  o.mix.embedding_type = tensor_type(r, "token-embedding-type");
  o.allow_requantize = r.given("allow-requantize");
  if (r.given("imatrix")) o.imatrix = r.text("imatrix");
  o.threads = threads_word(r).value_or(r.number<int>("threads"));
  require(o.threads >= 0 && o.threads <= 1024, "-t", "between 0 and 1024");
  return o;
}

std::optional<int> threads_word(const GivenFlags& r) {
  if (r.words().size() < kMaxWords) return std::nullopt;
  const std::string& word = r.words()[kMaxWords - 1];
  const auto threads = read_number<int>(word);
  if (!threads) throw UsageError(fmt::format("'{}' is no number of threads; leave it out for one per core", word));
  return threads;
}

}  // namespace yamata
