// A size in; that much zeroed memory, aligned to vectors (and to huge pages where it is large), out.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

template <typename T>
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(size_t count) : count_(count) {
        if (count == 0) return;
        const size_t bytes = count * sizeof(T);
        data_ = static_cast<T*>(::operator new(bytes, std::align_val_t(alignment())));
#ifdef __linux__
        if (alignment() > kVector) madvise(data_, bytes, MADV_HUGEPAGE);  // fewer misses in page tables; only a hint
#endif
        std::memset(static_cast<void*>(data_), 0, bytes);
    }
    ~Buffer() { ::operator delete(data_, std::align_val_t(alignment())); }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return count_; }

private:
    static constexpr size_t kVector = 64, kHugePage = size_t(2) << 20;

    size_t alignment() const { return count_ * sizeof(T) >= 4 * kHugePage ? kHugePage : kVector; }
    void swap(Buffer& other) {
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
    }

    T* data_ = nullptr;
    size_t count_ = 0;
};
