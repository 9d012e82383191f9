#include "launch/program/serving/submission.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace yamata {
namespace {

[[noreturn]] void refuse_value(const std::string& param, const std::string& message) { throw Refusal{"bad_value", param, message}; }

/// The value of a field; nullptr if it is absent or null.
const JsonLine* field_of(const JsonLine& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

float number_of(const JsonLine& object, const char* name, double least, double most, float fallback) {
  const JsonLine* value = field_of(object, name);
  if (!value) return fallback;
  const bool fits = value->is_number() && value->get<double>() >= least && value->get<double>() <= most;
  if (!fits) refuse_value(name, fmt::format("{} must be a number from {} to {}", name, least, most));
  return value->get<float>();
}

std::int32_t whole_of(const JsonLine& object, const char* name, std::int32_t least, std::int32_t most, std::int32_t fallback) {
  const JsonLine* value = field_of(object, name);
  if (!value) return fallback;
  const bool fits = value->is_number_integer() && value->get<double>() >= least && value->get<double>() <= most;
  if (!fits) refuse_value(name, fmt::format("{} must be a whole number from {} to {}", name, least, most));
  return value->get<std::int32_t>();
}

/// Negative seeds count from the end. An absent one is drawn; it is an exact number in JSON readers that use doubles.
std::uint64_t seed_of(const JsonLine& sampling) {
  const JsonLine* value = field_of(sampling, "seed");
  if (!value) {
    std::random_device device;
    return (std::uint64_t{device()} << 21) ^ device();
  }
  if (!value->is_number_integer()) refuse_value("seed", "seed must be a whole number of 64 bits");
  return value->is_number_unsigned() ? value->get<std::uint64_t>() : static_cast<std::uint64_t>(value->get<std::int64_t>());
}

/// {"token id": bias, …}; -100 and below: never.
std::vector<LogitBias> biases_of(const JsonLine& sampling, const Tokenizer& tokenizer) {
  std::vector<LogitBias> biases;
  const JsonLine* value = field_of(sampling, "logit_bias");
  if (!value) return biases;
  if (!value->is_object()) refuse_value("logit_bias", "logit_bias must be an object of token ids and numbers");
  if (value->size() > 1024) refuse_value("logit_bias", "logit_bias has more than 1024 tokens");
  for (const auto& [name, bias] : value->items()) {
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc{} || end != name.data() + name.size() || token < 0 || token >= tokenizer.size())
      refuse_value("logit_bias", fmt::format("logit_bias: the vocabulary has no token '{}'", name.substr(0, 40)));
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= 1000))
      refuse_value("logit_bias", "logit_bias: a bias must be from -1000 to 1000");
    biases.push_back({token, bias.get<float>()});
  }
  return biases;
}

SamplingParams sampling_of(const JsonLine& line, const ServedModel& model) {
  static const JsonLine kNone = JsonLine::object();
  const JsonLine* given = field_of(line, "sampling");
  if (given && !given->is_object()) refuse_value("sampling", "sampling must be an object");
  const JsonLine& values = given ? *given : kNone;
  const SamplingParams& defaults = model.defaults;
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  SamplingParams sampling = defaults;
  sampling.temperature = number_of(values, "temperature", 0, 1000, defaults.temperature);
  sampling.top_k = whole_of(values, "top_k", 0, kMost, defaults.top_k);
  sampling.top_p = number_of(values, "top_p", 0, 1, defaults.top_p);
  sampling.min_p = number_of(values, "min_p", 0, 1, defaults.min_p);
  sampling.presence_penalty = number_of(values, "presence_penalty", -100, 100, 0);
  sampling.frequency_penalty = number_of(values, "frequency_penalty", -100, 100, 0);
  sampling.repeat_penalty = number_of(values, "repeat_penalty", 1e-3, 1000, defaults.repeat_penalty);
  sampling.repeat_last_n = whole_of(values, "repeat_last_n", -1, kMost, defaults.repeat_last_n);
  if (sampling.repeat_last_n < 0) sampling.repeat_last_n = model.context;
  sampling.seed = seed_of(values);
  sampling.bias = biases_of(values, model.tokenizer);
  return sampling;
}

std::vector<std::string> stops_of(const JsonLine& line) {
  constexpr std::size_t kMostStops = 64, kLongest = 4096;
  const JsonLine* value = field_of(line, "stop");
  if (!value) return {};
  if (!value->is_array() || value->size() > kMostStops)
    refuse_value("stop", fmt::format("stop must be a list of at most {} texts", kMostStops));
  std::vector<std::string> stops;
  for (const JsonLine& stop : *value) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().size() > kLongest)
      refuse_value("stop", fmt::format("stop must be texts of at most {} bytes", kLongest));
    stops.push_back(stop.get<std::string>());
  }
  return stops;
}

/// `prompt`: its tokens, or, if it is not known how many these are, `least` of them.
void require_fits(std::size_t prompt, std::size_t kept, int context, const char* least = "") {
  if (prompt + kept <= static_cast<std::size_t>(context)) return;
  throw Refusal{"context_length_exceeded", "prompt",
                fmt::format("This model's maximum context length is {} tokens. However, your prompt has {}{} tokens. Shorten it.", context,
                            least, prompt)};
}

/// What is certainly too long is not tokenized.
std::vector<TokenId> prompt_of_line(const JsonLine& line, const ServedModel& model, const std::function<void()>& watch) {
  const JsonLine* value = field_of(line, "prompt");
  if (!value || (!value->is_string() && !value->is_array())) refuse_value("prompt", "prompt must be a text or a list of token ids");
  std::vector<TokenId> ids;
  if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    require_fits(model.tokenizer.fewest_tokens(text.size()), 0, model.context, "at least ");
    ids = prompt_ids(model.tokenizer, text, watch);
  } else {
    require_fits(value->size(), 0, model.context);
    ids = read_ids(line, "prompt", model.tokenizer);
  }
  if (ids.empty()) refuse_value("prompt", "the prompt is empty");
  return ids;
}

}  // namespace

std::vector<TokenId> prompt_ids(const Tokenizer& tokenizer, std::string_view text, const std::function<void()>& watch) {
  std::vector<TokenId> ids = tokenizer.encode(text, true, true, watch);
  const bool twice = tokenizer.adds_bos() && ids.size() > 1 && ids[0] == tokenizer.bos() && ids[1] == tokenizer.bos();
  if (twice) ids.erase(ids.begin());
  return ids;
}

std::vector<TokenId> read_ids(const JsonLine& line, const char* name, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  const JsonLine* value = field_of(line, name);
  if (!value) return ids;
  if (!value->is_array()) refuse_value(name, fmt::format("{} must be a list of token ids", name));
  ids.reserve(value->size());
  for (const JsonLine& id : *value) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= tokenizer.size())
      refuse_value(name, fmt::format("{} holds what is no token id; the vocabulary has {} tokens", name, tokenizer.size()));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::string read_string(const JsonLine& line, const char* name) {
  const JsonLine* value = field_of(line, name);
  if (!value || !value->is_string()) refuse_value(name, fmt::format("{} must be a text", name));
  return value->get<std::string>();
}

bool read_flag(const JsonLine& line, const char* name, bool fallback) {
  const JsonLine* value = field_of(line, name);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse_value(name, fmt::format("{} must be true or false", name));
  return value->get<bool>();
}

Submission read_submission(const JsonLine& line, const ServedModel& model, const std::function<void()>& watch) {
  constexpr std::int32_t kEndless = std::numeric_limits<std::int32_t>::max() / 2, kMostAlternatives = 1000;
  Submission read;
  Request& request = read.request;
  request.sampling = sampling_of(line, model);
  read.stops = stops_of(line);
  read.special = read_flag(line, "special", false);
  read.times = read_flag(line, "token_times", false);
  const std::int32_t most = whole_of(line, "max_tokens", 1, std::numeric_limits<std::int32_t>::max(), kEndless);
  if (field_of(line, "logprobs")) request.logprobs = whole_of(line, "logprobs", 0, kMostAlternatives, 0);
  request.reuse = read_flag(line, "cache", true);
  request.checksum = read_flag(line, "logits_checksum", false);
  for (TokenId id = 0; id < model.tokenizer.size(); ++id) {
    if (model.tokenizer.ends_generation(id)) request.ends.push_back(id);
  }
  const JsonLine* sampling = field_of(line, "sampling");
  if (sampling && read_flag(*sampling, "ignore_eos", false)) request.banned = request.ends;
  request.prompt = prompt_of_line(line, model, watch);
  const std::vector<TokenId> kept = read_ids(line, "kept", model.tokenizer);
  require_fits(request.prompt.size(), kept.size(), model.context);
  request.prompt.insert(request.prompt.end(), kept.begin(), kept.end());
  request.kept = static_cast<std::int32_t>(kept.size());
  request.generate = most - std::min(most, request.kept);
  return read;
}

}  // namespace yamata
