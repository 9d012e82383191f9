#include "tests/mpi/protocol/damage.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace yamata::test {
namespace {

using wire::Bytes;
using Random = std::mt19937_64;

std::size_t below(std::size_t end, Random& random) { return end > 0 ? random() % end : 0; }

void flip_bits(Bytes& bytes, Random& random) {
  for (std::size_t n = 1 + below(8, random); n > 0 && !bytes.empty(); --n)
    bytes[below(bytes.size(), random)] ^= static_cast<std::byte>(1u << below(8, random));
}

void extend(Bytes& bytes, Random& random) {
  for (std::size_t n = 1 + below(40, random); n > 0; --n) bytes.push_back(static_cast<std::byte>(random() & 0xff));
}

void swap_parts(Bytes& bytes, Random& random) {
  const std::size_t length = std::size_t{4} << below(4, random);
  if (bytes.size() < 2 * length) return;
  const std::size_t a = below(bytes.size() - 2 * length + 1, random) & ~std::size_t{3};
  const std::size_t b = a + length + below(bytes.size() - a - 2 * length + 1, random);
  std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(a), bytes.begin() + static_cast<std::ptrdiff_t>(a + length),
                   bytes.begin() + static_cast<std::ptrdiff_t>(b));
}

void splice(Bytes& bytes, const Bytes& other, Random& random) {
  const std::size_t keep = below(bytes.size() + 1, random), from = below(other.size() + 1, random);
  bytes.resize(keep);
  bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
}

template <class T>
void write_extreme(Bytes& bytes, Random& random) {
  constexpr std::uint64_t kExtremes[] = {0,
                                         1,
                                         2,
                                         63,
                                         64,
                                         65,
                                         0x7fff,
                                         0xffff,
                                         0x7fffffff,
                                         0x80000000,
                                         0xffffffff,
                                         0x7f800000,  // infinity, NaN as float
                                         0x7fc00000,
                                         0x100000000,
                                         0x7ff0000000000000,  // as double
                                         0x7ff8000000000000,
                                         0x7fffffffffffffff,
                                         0x8000000000000000,
                                         0xffffffffffffffff,
                                         0x1fffffffffffffff,  // overflows when multiplied by eight
                                         0x2000000000000001};
  if (bytes.size() < sizeof(T)) return;
  std::size_t at = below(bytes.size() - sizeof(T) + 1, random);
  if (below(4, random) > 0) at &= ~std::size_t{3};  // most fields are aligned
  const auto value = static_cast<T>(kExtremes[below(std::size(kExtremes), random)]);
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace

std::size_t damage_rounds() {
  const char* rounds = std::getenv("YAMATA_WIRE_DAMAGE");
  return rounds ? static_cast<std::size_t>(std::strtoull(rounds, nullptr, 10)) : 20000;
}

Bytes damage(const Bytes& whole, const Bytes& other, Random& random) {
  Bytes bytes = whole;
  for (std::size_t n = 1 + below(3, random); n > 0; --n) {
    switch (below(8, random)) {
      case 0:
        bytes.resize(below(bytes.size() + 1, random));
        break;
      case 1:
        extend(bytes, random);
        break;
      case 2:
        swap_parts(bytes, random);
        break;
      case 3:
        splice(bytes, other, random);
        break;
      case 4:
      case 5:
        write_extreme<std::uint32_t>(bytes, random);
        break;
      case 6:
        write_extreme<std::uint64_t>(bytes, random);
        break;
      default:
        flip_bits(bytes, random);
    }
  }
  return bytes;
}

}  // namespace yamata::test
