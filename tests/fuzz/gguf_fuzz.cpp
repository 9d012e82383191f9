// libFuzzer harness: any bytes are either a model file, all of whose parts can be read, or give an Error of one line.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "node/error.hpp"
#include "src/gguf/gguf.hpp"
#include "src/model/hyperparameters.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace {

/// All values that are read go here, so that the compiler cannot remove reads of the mapping.
volatile std::uint64_t sink;

void touch(const yamata::gguf::File& file) {
  std::uint64_t sum = file.fingerprint();
  for (const yamata::gguf::Tensor& tensor : file.tensors()) {
    sum += static_cast<std::uint64_t>(tensor.rows() * tensor.cols() > 0);
    sum += static_cast<std::uint64_t>(tensor.data[0]) + static_cast<std::uint64_t>(tensor.data[tensor.bytes - 1]);
  }
  sink = sum;
}

void tokenize(const yamata::gguf::File& file) {
  const auto tokenizer = yamata::Tokenizer::load(file);
  for (const std::string_view text : {"", "Hello  world 123\n", "<s>a</s>\xff\xc3\x28 \xe2\x96\x81"}) {
    yamata::StreamDecoder decoder(*tokenizer);
    std::size_t bytes = 0;
    for (const yamata::TokenId id : tokenizer->encode(text, true, true)) {
      if (id < 0 || id >= tokenizer->size()) std::abort();
      bytes += decoder.push(id).size() + tokenizer->piece(id, true).size() + tokenizer->ends_generation(id);
    }
    sink = bytes + decoder.finish().size();
  }
  for (yamata::TokenId id = 0; id < tokenizer->size(); ++id) sink = tokenizer->piece(id).size();
}

/// Runs `step`; an Error is a valid result, any other exception ends the fuzzer.
template <class Step>
void expect_done_or_error(Step step) {
  try {
    step();
  } catch (const yamata::Error&) {
    sink = 0;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  expect_done_or_error([&] {
    const auto file = [&] {
      try {
        return yamata::gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
      } catch (const yamata::ModelError& error) {
        if (std::string_view(error.what()).find_first_of("\r\n\x1b") != std::string_view::npos) std::abort();
        throw;
      }
    }();
    touch(file);
    expect_done_or_error([&] { sink = static_cast<std::uint64_t>(yamata::Hyperparameters::read(file).layers); });
    expect_done_or_error([&] { tokenize(file); });
  });
  return 0;
}
