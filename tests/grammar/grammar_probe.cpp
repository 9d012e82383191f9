// Compiles schemas for reference.py. Each line of standard input is {"schema": {}, "accepts": [texts], "generate": n, "seed": s}; the
// answer is a line {"refused": why} or {"accepted": [whether], "documents": [texts]}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "node/error.hpp"
#include "src/grammar/json_schema.hpp"
#include "tests/grammar/random_document.hpp"

namespace {

nlohmann::json answer(const nlohmann::ordered_json& question) {
  using namespace yamata;
  try {
    GrammarReader reader(compile_json_schema(question.at("schema").dump()));
    nlohmann::json found{{"accepted", nlohmann::json::array()}, {"documents", nlohmann::json::array()}};
    for (const auto& text : question.at("accepts")) found["accepted"].push_back(accepts(reader, text.get<std::string>()));
    std::mt19937 random(question.at("seed").get<unsigned>());
    for (int i = 0; i < question.at("generate").get<int>(); ++i) found["documents"].push_back(random_document(reader, random));
    return found;
  } catch (const UsageError& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(nlohmann::ordered_json::parse(line)).dump() << std::endl;
}
