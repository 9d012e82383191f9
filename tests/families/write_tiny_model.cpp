// write_tiny_model VARIANT F32|F16|F16-WIDENED PATH: writes a small model; the last type means F32 tensors with the values of F16.
//
// write_tiny_model --list: prints the variants; --list-nextn: those with an MTP layer; --prompt: the prompt's ids.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/families/tiny_model.hpp"

int main(int argc, char** argv) {
  using namespace yamata;
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--list") {
    for (const std::string& name : families_test::variant_names()) std::printf("%s\n", name.c_str());
  } else if (first == "--list-nextn") {
    for (const std::string& name : families_test::nextn_variant_names()) std::printf("%s\n", name.c_str());
  } else if (first == "--prompt") {
    for (const std::int32_t id : families_test::tiny_prompt()) std::printf("%d\n", id);
  } else if (argc == 4) {
    try {
      const std::string type = argv[2];
      families_test::write_tiny_model(first, type == "F32" ? TensorType::F32 : TensorType::F16, argv[3], type == "F16-WIDENED");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  } else {
    std::fprintf(stderr, "usage: write_tiny_model VARIANT F32|F16|F16-WIDENED PATH\n");
    return 1;
  }
  return 0;
}
