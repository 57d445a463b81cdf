// Kernels in plain C++: for tests, and for processors that have no variant of their own.
#include <cstddef>

#include "kernels.hpp"

namespace {
#include "lanes_generic.hpp"
#include "kernels_body.hpp"
constexpr Kernels kTable = table("generic");
}  // namespace

const Kernels* generic_kernels() { return &kTable; }
