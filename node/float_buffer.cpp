#include "node/float_buffer.hpp"

namespace yamata {

void FloatBuffer::reserve(std::size_t floats) {
  if (floats <= size_) return;
  buffer_.reset();  // frees the old buffer first, since there may not be enough memory for both
  data_ = nullptr, size_ = 0;
  buffer_ = unit_.allocate(floats * sizeof(float), use_);
  data_ = reinterpret_cast<float*>(buffer_->host().data());
  size_ = floats;
}

}  // namespace yamata
