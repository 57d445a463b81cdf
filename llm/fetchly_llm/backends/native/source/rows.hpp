// A number of rows in; room for them as inputs of products out.
#pragma once

#include "buffer.hpp"
#include "kernels.hpp"

// Quantised for int8 matrices, plain for fp32 ones. `inputs` is a multiple of 32.
class RowBuffer {
public:
    RowBuffer() = default;
    RowBuffer(bool int8, int rows, int inputs) {
        const size_t size = size_t(rows) * size_t(inputs);
        whole_.stride = inputs;
        if (!int8) {
            floats_ = Buffer<float>(size);
            whole_.floats = floats_.data();
            return;
        }
        quants_ = Buffer<int8_t>(size);
        scales_ = Buffer<float>(size / kGroup);
        offsets_ = Buffer<int32_t>(size / kGroup);
        whole_.quants = quants_.data();
        whole_.scales = scales_.data();
        whole_.offsets = offsets_.data();
    }

    Rows& whole() { return whole_; }
    const Rows& whole() const { return whole_; }
    // The same rows without their first `inputs`, a multiple of 32.
    Rows from(int inputs) const {
        Rows rest = whole_;
        if (whole_.floats != nullptr) {
            rest.floats += inputs;
        } else {
            rest.quants += inputs;
            rest.scales += inputs / kGroup;
            rest.offsets += inputs / kGroup;
        }
        return rest;
    }

private:
    Buffer<int8_t> quants_;
    Buffer<float> scales_, floats_;
    Buffer<int32_t> offsets_;
    Rows whole_;
};
