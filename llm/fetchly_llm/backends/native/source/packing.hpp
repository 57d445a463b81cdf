// Tensors of a file in; matrices as the kernels read them, and vectors, in one piece of memory, out.
#pragma once

#include <cstdint>

#include "buffer.hpp"
#include "kernels.hpp"
#include "pool.hpp"

enum Type : int32_t { kFloat32, kFloat16, kBfloat16, kTypes };  // of the numbers in a file

// Hands out memory for matrices, int8 or fp32, and vectors. Until it is allocated it only counts: whoever lays weights
// out does so twice, and what the first round was given is not to be used.
class Arena {
public:
    explicit Arena(bool int8) : int8_(int8) {}

    Matrix matrix(int64_t channels, int64_t inputs);  // inputs in whole groups, the rest zero
    float* vector(int64_t size);
    void allocate();

private:
    void* take(size_t bytes);

    bool int8_;
    Buffer<char> memory_;
    size_t used_ = 0;  // bytes of memory_; before it is allocated, those that it will have
};

// Where a tensor of `rows` rows goes: to the channels of `matrix` from `channel` on, `run` of them and then `gap` left
// out, or to a vector in the same way. A vector has one column. Neither: there is no such tensor.
struct Place {
    const Matrix* matrix = nullptr;
    float* vector = nullptr;
    int64_t rows = 0, columns = 1, channel = 0, run = 0, gap = 0;

    bool fits(int64_t its_rows, int64_t its_columns) const {
        return (matrix != nullptr || vector != nullptr) && its_rows == rows && its_columns == columns;
    }
};

// Copy a tensor of the place's shape in, its numbers times `scale`.
void pack(Pool& pool, const Place& place, Type type, const void* data, float scale);

// Whether all of `count` numbers are finite, and so when multiplied by `scale`.
bool all_finite(Type type, const void* data, int64_t count, float scale);

float brain_float(uint16_t bits);
inline int whole_groups(int size) { return (size + kGroup - 1) / kGroup * kGroup; }
