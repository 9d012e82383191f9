#pragma once
// Metadata that say something about a model: those that are read or known to be harmless, and the error for others.
#include <span>
#include <string>

#include "src/model/family.hpp"
#include "src/model/metadata_reader.hpp"

namespace yamata {

/// A key with which a file is not refused.
struct KnownKey {
  enum class Use {
    kRead,
    kHarmless,  ///< without it, the text is the same
  };
  const char* key;  ///< without the family's prefix; ending in '.': all that begin so. A tokenizer's key is complete
  Use use;
  const char* reason = nullptr;  ///< why it is harmless: a clause
  const char* family = nullptr;  ///< null: in all
};

/// Keys beginning with "tokenizer.".
std::span<const KnownKey> tokenizer_keys();

/// Throws ModelError with the first key of the family or of the tokenizer that was not read and is not known to be harmless.
void require_known_keys(const MetadataReader& reader, const Family& family);

}  // namespace yamata
