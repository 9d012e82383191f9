#pragma once
// The metadata of n-gram embeddings.

namespace yamata {

struct Hyperparameters;
class MetadataReader;

/// Reads which layer has them, and their hashes. Throws ModelError if they are missing, not supported or inconsistent.
void read_ngrams(const MetadataReader& reader, Hyperparameters& h);

}  // namespace yamata
