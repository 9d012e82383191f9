#include "tests/grammar/random_document.hpp"

#include <algorithm>
#include <vector>

namespace yamata {

bool accepts(GrammarReader& reader, std::string_view text) {
  GrammarReader::Place place = reader.start();
  for (const char byte : text) {
    if (!reader.step(place, static_cast<std::uint8_t>(byte))) return false;
  }
  return reader.accepting(place);
}

std::string random_document(GrammarReader& reader, std::mt19937& random) {
  constexpr std::size_t kLong = 300, kTooLong = 20000;
  const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
  GrammarReader::Place place = reader.start();
  std::string text;
  while (text.size() < kTooLong) {
    std::vector<std::uint8_t> bytes, closing;
    const auto following = reader.following(place);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if ((following[byte / 64] >> byte % 64 & 1) == 0) continue;
      bytes.push_back(static_cast<std::uint8_t>(byte));
      if (byte == '"' || byte == '}' || byte == ']') closing.push_back(static_cast<std::uint8_t>(byte));
    }
    if (reader.accepting(place) && (bytes.empty() || chance(0.5))) return text;
    if (!closing.empty() && chance(text.size() > kLong ? 0.9 : 0.2)) bytes = closing;
    if (text.size() > kLong && bytes.size() > 1) std::erase(bytes, ',');
    const std::uint8_t byte = bytes[random() % bytes.size()];
    reader.step(place, byte);
    text += static_cast<char>(byte);
  }
  return {};
}

}  // namespace yamata
