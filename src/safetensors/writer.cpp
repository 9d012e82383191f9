#include "src/safetensors/writer.hpp"

#include <nlohmann/json.hpp>

namespace yamata::safetensors {

void write(const std::vector<Entry>& entries, const std::map<std::string, std::string>& metadata,
           const std::function<void(std::span<const std::byte>)>& sink) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    header[entry.name] = {{"dtype", entry.type}, {"shape", entry.shape}, {"data_offsets", {at, at + entry.bytes.size()}}};
    at += entry.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, decltype(header)::error_handler_t::replace);
  constexpr std::size_t kAlignment = 64, kLength = sizeof(std::uint64_t);
  text.append((kAlignment - (kLength + text.size()) % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(text)));
  for (const Entry& entry : entries) sink(entry.bytes);
}

}  // namespace yamata::safetensors
