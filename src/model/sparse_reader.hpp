#pragma once
// The metadata of sparse attention, where an index picks the cells that a token attends to.

namespace yamata {

struct Hyperparameters;
class MetadataReader;

/// Reads the sizes of the index, and which layers have one. Throws ModelError if they are missing, not supported or inconsistent.
void read_deepseek32(const MetadataReader& reader, Hyperparameters& h);
void read_glm_dsa(const MetadataReader& reader, Hyperparameters& h);

/// An index with a key for each block of tokens (`qwen4exp`). Call it when `h.mixers` are known. Throws ModelError with what is not
/// supported.
void read_block_index(const MetadataReader& reader, Hyperparameters& h);

}  // namespace yamata
