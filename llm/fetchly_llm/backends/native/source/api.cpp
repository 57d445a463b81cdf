// The C interface that Python calls (library.py). Functions that can fail return a message, null where all is well;
// messages are constants and are never freed. Nothing is thrown across the border.

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <memory>
#include <new>

#include "model.hpp"

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {
constexpr int kVersion = 4;  // of the interface
constexpr int kMostThreads = 256;
constexpr const char* kNotFinite = "not every number is finite";

// Floating point as the standard has it while this lives: the caller may round otherwise or flush small numbers to
// zero.
class DefaultFloats {
public:
    DefaultFloats() {
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloats() { std::fesetenv(&before_); }

private:
    std::fenv_t before_;
};

const Kernels* usable(const char* name) {
    const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
    if (is("generic")) return generic_kernels();
#if defined(__x86_64__) || defined(__i386__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#ifdef WITH_AVX2
    if (is("avx2") && avx2) return avx2_kernels();
#endif
#ifdef WITH_AVXVNNI
    if (is("avxvnni") && avx2 && __builtin_cpu_supports("avxvnni")) return avxvnni_kernels();
#endif
#ifdef WITH_AVX512
    if (is("avx512") && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        return avx512_kernels();
#endif
#endif
    return nullptr;
}

template <typename AnyPass>
const char* run(Model* model, const AnyPass* pass) {
    if (model == nullptr || pass == nullptr) return "an argument is missing";
    std::lock_guard<std::mutex> lock(model->mutex());
    if (const char* why = model->objection(*pass)) return why;
    DefaultFloats floats;
    try {
        model->run(*pass);
        return nullptr;
    } catch (...) {
        return "memory is too small for the pass";
    }
}
}  // namespace

EXPORT int32_t native_version() { return kVersion; }

// Whether the kernels `name` (avx512, avxvnni, avx2, generic) were built and run on this processor.
EXPORT int32_t native_has_kernels(const char* name) { return name != nullptr && usable(name) != nullptr; }

EXPORT const char* native_open(const Shape* shape, const char* kernels, int32_t threads, Model** model) {
    if (shape == nullptr || kernels == nullptr || model == nullptr) return "an argument is missing";
    if (!shape->valid()) return "the shape is not one that the kernels can run";
    if (threads < 1 || threads > kMostThreads) return "the number of threads is not within 1 and 256";
    const Kernels* table = usable(kernels);
    if (table == nullptr) return "there are no such kernels for this processor";
    try {
        *model = new Model(*shape, *table, threads);
        return nullptr;
    } catch (const std::bad_alloc&) {
        return "memory is too small for the model";
    } catch (...) {
        return "the threads cannot be started";
    }
}

// In a fork of the process that opened it, a model stays: its threads are not there to be ended.
EXPORT void native_close(Model* model) {
    if (model != nullptr && !model->pool().orphaned()) delete model;
}

EXPORT const char* native_load(Model* model, int32_t layer, int32_t part, int32_t type, const void* data, int64_t rows,
                               int64_t columns) {
    if (model == nullptr) return "an argument is missing";
    std::lock_guard<std::mutex> lock(model->mutex());
    DefaultFloats floats;
    model->pool().begin();
    try {
        return model->weights().load(model->pool(), layer, Part(part), Type(type), data, rows, columns)
                   ? nullptr
                   : "the model has no such tensor of this shape";
    } catch (...) {
        return "memory is too small for a tensor";
    }
}

EXPORT const char* native_run(Model* model, const Pass* pass) { return run(model, pass); }

// Logits of some tokens after rows of a pass.
EXPORT const char* native_score(Model* model, const HeadPass* pass) { return run(model, pass); }

// Give a model streams, which have yet to be loaded.
EXPORT const char* native_open_streams(Model* model, const StreamShape* shape) {
    if (model == nullptr || shape == nullptr) return "an argument is missing";
    std::lock_guard<std::mutex> lock(model->mutex());
    if (model->streams() != nullptr) return "the model has streams already";
    if (const char* why = shape->objection(model->shape())) return why;
    try {
        model->open_streams(*shape);
        return nullptr;
    } catch (...) {
        return "memory is too small for the streams";
    }
}

EXPORT const char* native_load_stream(Model* model, int32_t layer, int32_t part, int32_t type, const void* data,
                                      int64_t rows, int64_t columns) {
    if (model == nullptr || data == nullptr) return "an argument is missing";
    std::lock_guard<std::mutex> lock(model->mutex());
    if (model->streams() == nullptr) return "the model has no streams";
    StreamWeights& weights = model->streams()->weights();
    DefaultFloats floats;
    model->pool().begin();
    try {
        if (!weights.load(model->pool(), layer, StreamPart(part), Type(type), data, rows, columns))
            return "the streams have no such tensor of this shape";
        if (weights.complete() && model->weights().complete()) model->streams()->tabulate();
        return all_finite(Type(type), data, rows * columns, weights.scale_of(StreamPart(part))) ? nullptr : kNotFinite;
    } catch (...) {
        return "memory is too small for a tensor";
    }
}

EXPORT const char* native_speculate(Model* model, const StreamPass* pass) {
    if (model == nullptr || pass == nullptr) return "an argument is missing";
    std::lock_guard<std::mutex> lock(model->mutex());
    if (model->streams() == nullptr) return "the model has no streams";
    if (const char* why = model->streams()->objection(*pass)) return why;
    DefaultFloats floats;
    try {
        model->streams()->run(*pass);
        return nullptr;
    } catch (...) {
        return "memory is too small for the pass";
    }
}

// What the Markov head makes of a token that comes before: `markov_rank` floats.
EXPORT const char* native_successor(Model* model, int32_t token, float* factor) {
    if (model == nullptr || factor == nullptr) return "an argument is missing";
    std::lock_guard<std::mutex> lock(model->mutex());
    if (token < 0 || token >= model->shape().vocab) return "a token is outside the vocabulary";
    const float* found = model->streams() == nullptr ? nullptr : model->streams()->successor(token);
    if (found == nullptr) return "the model has no Markov head";
    std::copy(found, found + model->streams()->markov_rank(), factor);
    return nullptr;
}

// Copy the keys and values of slots from[i] to to[i], in order.
EXPORT const char* native_move(const Model* model, const Cache* cache, const int32_t* from, const int32_t* to,
                               int32_t count) {
    if (model == nullptr || cache == nullptr || (count > 0 && (from == nullptr || to == nullptr)))
        return "an argument is missing";
    const Shape& shape = model->shape();
    for (int i = 0; i < count; i++)
        if (from[i] < 0 || to[i] < 0 || from[i] >= cache->blocks * kBlock || to[i] >= cache->blocks * kBlock)
            return "a slot lies outside the cache";
    for (int layer = 0; layer < shape.layers; layer++)
        for (int head = 0; head < shape.kv_heads; head++)
            for (int i = 0; i < count; i++) {
                const int64_t source = from[i] / kBlock, target = to[i] / kBlock;
                const float* key = cache->keys + cache->key_block(shape, layer, source, head) + from[i] % kBlock;
                float* new_key = cache->keys + cache->key_block(shape, layer, target, head) + to[i] % kBlock;
                for (int d = 0; d < shape.dim; d++) new_key[d * kBlock] = key[d * kBlock];
                const int padded = shape.padded();
                const float* value = cache->values + cache->value_block(shape, layer, source, head);
                float* new_value = cache->values + cache->value_block(shape, layer, target, head);
                std::memmove(new_value + to[i] % kBlock * padded, value + from[i] % kBlock * padded,
                             sizeof(float) * size_t(padded));
            }
    return nullptr;
}
