#pragma once
// Metadata that say something about a model and that no code reads: those known to be harmless, and the error for others.
#include <span>
#include <string>

#include "src/model/family.hpp"
#include "src/model/metadata_reader.hpp"

namespace yamata {

/// A key without which the text is the same.
struct HarmlessKey {
  const char* key;               ///< without the family's prefix; ending in '.': all that begin so. A tokenizer's key is complete
  const char* reason;            ///< a clause
  const char* family = nullptr;  ///< null: in all
};

/// Keys of families.
std::span<const HarmlessKey> harmless_keys();
/// Keys beginning with "tokenizer." that are read, or harmless.
std::span<const HarmlessKey> tokenizer_keys();

/// Throws ModelError with the first key of the family or of the tokenizer that was not read and is not known to be harmless.
void require_known_keys(const MetadataReader& reader, const Family& family);

}  // namespace yamata
