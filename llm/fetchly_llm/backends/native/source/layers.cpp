#include "layers.hpp"

#include <algorithm>
#include <cmath>

namespace {
constexpr int kTilesAtOnce = 2;      // of a projection: more would share unevenly between threads
constexpr int kHeadTilesAtOnce = 8;  // of the LM head
constexpr int kSerialRows = 4;       // fewer rows are normalised sooner than threads are told of them
constexpr int kSerialTiles = 48;     // of the LM head: fewer are multiplied sooner
}  // namespace

Layers::Layers(const Shape& shape, const Kernels& kernels, Pool& pool)
    : shape_(shape),
      kernels_(kernels),
      pool_(pool),
      attention_(shape, kernels, pool.threads()),
      scratch_size_(int64_t(kMostRows) * std::max({shape.padded(), kHeadTilesAtOnce * kLanes, 2 * kGroup})),
      hidden_(size_t(kMostRows) * size_t(shape.hidden)),
      queries_(size_t(kMostRows) * size_t(shape.heads) * size_t(shape.padded())),
      mixed_(size_t(kMostRows) * size_t(shape.heads) * size_t(shape.dim)),
      normed_(size_t(kMostRows) * size_t(shape.hidden)),
      row_(size_t(pool.threads()) * size_t(shape.hidden)),
      scratch_(size_t(pool.threads()) * 2 * size_t(scratch_size_)),
      hidden_rows_(shape.int8, kMostRows, shape.hidden),
      mixed_rows_(shape.int8, kMostRows, shape.heads * shape.dim),
      inner_rows_(shape.int8, kMostRows, shape.inner) {}

void Layers::run(const Work& work, int number, const Layer& layer, const Adapters* adapters, bool keys_only) {
    const int rows = work.plan.rows;
    const LowRank *qkv = adapters ? &adapters->qkv : nullptr, *output = adapters ? &adapters->output : nullptr;
    for_rows(rows, hidden_.data(), shape_.hidden, hidden_rows_, layer.attention_norm, qkv);
    project_heads(work, number, layer, adapters, !keys_only);
    if (keys_only) return;
    pool_.run(items_, [&](int item, int thread) {
        attention_.attend(work.places, work.plan, number, item, thread, queries_.data(), mixed_.data());
    });
    for_rows(rows, mixed_.data(), shape_.heads * shape_.dim, mixed_rows_, nullptr, output);
    add_product(layer.output, mixed_rows_, layer.output_bias, rows, output);
    const LowRank* gate_up = adapters ? &adapters->gate_up : nullptr;
    for_rows(rows, hidden_.data(), shape_.hidden, hidden_rows_, layer.mlp_norm, gate_up);
    feed_forward(layer, rows, adapters);
}

// Rows of `values`, normalised where there is a norm, as the input of a product, and of an adapter where there is one.
void Layers::for_rows(int rows, const float* values, int stride, RowBuffer& into, const float* weight,
                      const LowRank* low) {
    auto work = [&](int row, int thread) {
        const float* from = values + int64_t(row) * stride;
        if (weight != nullptr) {
            float* normed = row_.data() + int64_t(thread) * shape_.hidden;
            kernels_.norm(from, weight, shape_.epsilon, stride, stride, normed);
            from = normed;
        }
        kernels_.store(from, stride, into.whole(), row, 0);
        if (low != nullptr) lower(*low, into, row, thread);
    };
    if (rows > kSerialRows || low != nullptr)
        pool_.run(rows, work);
    else
        for (int row = 0; row < rows; row++) work(row, 0);
}

// The first half of an adapter, for one row: into low_rows_.
void Layers::lower(const LowRank& low, const RowBuffer& from, int row, int thread) {
    float* lowered = scratch(thread);
    const int columns = low.down.tiles * kLanes;
    kernels_.product(low.down, 0, low.down.tiles, from.whole(), row, 1, lowered, columns);
    kernels_.store(lowered, columns, low_rows_.whole(), row, 0);
}

// The second half, for the channels of some tiles, which read low_rows_ without the first `skipped` inputs: out += it.
void Layers::add_raised(const LowRank& low, int first, int count, int skipped, int rows, float* out, int stride,
                        int thread) {
    const int columns = count * kLanes;
    float* raised = second_scratch(thread);
    kernels_.product(low.up, first, count, low_rows_.from(skipped), 0, rows, raised, columns);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < columns; i++) out[int64_t(row) * stride + i] += raised[int64_t(row) * columns + i];
}

// Queries, keys and values of a layer; keys and values go to their slots.
void Layers::project_heads(const Work& work, int number, const Layer& layer, const Adapters* adapters,
                           bool queries_too) {
    const int padded = shape_.padded(), tiles = padded / kLanes, rows = work.plan.rows;
    const int first = queries_too ? 0 : shape_.heads;
    pool_.run(shape_.units() - first, [&](int item, int thread) {
        const int unit = first + item;
        float* heads = scratch(thread);
        kernels_.product(layer.qkv, unit * tiles, tiles, hidden_rows_.whole(), 0, rows, heads, padded);
        if (adapters != nullptr) {
            const int linear = unit < shape_.heads ? 0 : unit < shape_.heads + shape_.kv_heads ? 1 : 2;
            add_raised(adapters->qkv, unit * tiles, tiles, linear * adapters->rank, rows, heads, padded, thread);
        }
        for (int row = 0; row < rows; row++)
            finish_head(work, number, layer, unit, row, heads + int64_t(row) * padded);
    });
}

// A head of one row: bias, norm, rotation (RoFormer, arXiv 2104.09864, halves as in Hugging Face checkpoints).
void Layers::finish_head(const Work& work, int number, const Layer& layer, int unit, int row, float* head) {
    const int padded = shape_.padded(), dim = shape_.dim, half = dim / 2;
    const bool is_query = unit < shape_.heads, is_value = unit >= shape_.heads + shape_.kv_heads;
    if (layer.qkv_bias != nullptr)
        for (int i = 0; i < dim; i++) head[i] += layer.qkv_bias[int64_t(unit) * padded + i];
    if (!is_value && layer.query_norm != nullptr)
        kernels_.norm(head, is_query ? layer.query_norm : layer.key_norm, shape_.epsilon, dim, padded, head);
    const int slot = work.plan.slots[size_t(row)], block = slot / kBlock, place = slot % kBlock;
    if (is_value) {
        float* values = work.places.values(number, block, unit - shape_.heads - shape_.kv_heads);
        std::copy(head, head + padded, values + int64_t(place) * padded);
        return;
    }
    const int64_t angle = int64_t(work.plan.positions[size_t(row)]) * half;
    for (int i = 0; i < half; i++) {
        const float cosine = work.cosine[angle + i], sine = work.sine[angle + i];
        const float low = head[i], high = head[half + i];
        head[i] = low * cosine - high * sine;
        head[half + i] = high * cosine + low * sine;
    }
    if (is_query) {
        const float scale = 1.0f / std::sqrt(float(dim));
        float* query = queries_.data() + (int64_t(row) * shape_.heads + unit) * padded;
        for (int i = 0; i < dim; i++) query[i] = head[i] * scale;
        return;
    }
    float* keys = work.places.keys(number, block, unit - shape_.heads) + place;
    for (int i = 0; i < dim; i++) keys[int64_t(i) * kBlock] = head[i];
}

// hidden += matrix times rows (+ bias).
void Layers::add_product(const Matrix& matrix, const RowBuffer& from, const float* bias, int rows,
                         const LowRank* low) {
    pool_.run((matrix.tiles + kTilesAtOnce - 1) / kTilesAtOnce, [&](int item, int thread) {
        const int first = item * kTilesAtOnce, count = std::min(kTilesAtOnce, matrix.tiles - first);
        const int columns = count * kLanes;
        float* product = scratch(thread);
        kernels_.product(matrix, first, count, from.whole(), 0, rows, product, columns);
        if (low != nullptr) add_raised(*low, first, count, 0, rows, product, columns, thread);
        for (int row = 0; row < rows; row++) {
            float* sums = hidden(row) + first * kLanes;
            const float* own = product + int64_t(row) * columns;
            for (int i = 0; i < columns; i++) sums[i] += bias == nullptr ? own[i] : own[i] + bias[first * kLanes + i];
        }
    });
}

void Layers::feed_forward(const Layer& layer, int rows, const Adapters* adapters) {
    constexpr int kTiles = 2 * kGroup / kLanes;  // 32 gates and the 32 values that they gate
    constexpr int kColumns = 2 * kGroup;
    pool_.run(shape_.inner / kGroup, [&](int item, int thread) {
        float* both = scratch(thread);
        const int first = item * kTiles;
        kernels_.product(layer.gate_up, first, kTiles, hidden_rows_.whole(), 0, rows, both, kColumns);
        if (adapters != nullptr)
            for (int half = 0; half < 2; half++)
                add_raised(adapters->gate_up, first + half * kTiles / 2, kTiles / 2, half * adapters->rank, rows,
                           both + half * kGroup, kColumns, thread);
        for (int row = 0; row < rows; row++) {
            float* gate = both + int64_t(row) * kColumns;
            kernels_.swiglu(gate, gate + kGroup);
            kernels_.store(gate, kGroup, inner_rows_.whole(), row, item * kGroup);
        }
    });
    const LowRank* low = adapters ? &adapters->down : nullptr;
    if (low != nullptr) pool_.run(rows, [&](int row, int thread) { lower(*low, inner_rows_, row, thread); });
    add_product(layer.down, inner_rows_, nullptr, rows, low);
}

void Layers::norm(const int32_t* rows, int count, const float* weight) {
    auto work = [&](int i, int) {
        float* normed = normed_.data() + int64_t(i) * shape_.hidden;
        kernels_.norm(hidden(rows[i]), weight, shape_.epsilon, shape_.hidden, shape_.hidden, normed);
        kernels_.store(normed, shape_.hidden, hidden_rows_.whole(), i, 0);
    };
    if (count > kSerialRows)
        pool_.run(count, work);
    else
        for (int i = 0; i < count; i++) work(i, 0);
}

void Layers::score(const float* normed, int rows, const Matrix& head, const int32_t* tiles, int count, float* scores) {
    const int stride = count * kLanes;
    for (int row = 0; row < rows; row++)
        kernels_.store(normed + int64_t(row) * shape_.hidden, shape_.hidden, hidden_rows_.whole(), row, 0);
    auto work = [&](int item, int) {
        const int end = std::min(count, (item + 1) * kHeadTilesAtOnce);
        for (int first = item * kHeadTilesAtOnce, next; first < end; first = next) {  // tiles that follow each other
            next = first + 1;
            while (next < end && (tiles == nullptr || tiles[next] == tiles[next - 1] + 1)) next++;
            kernels_.product(head, tiles == nullptr ? first : tiles[first], next - first, hidden_rows_.whole(), 0,
                             rows, scores + int64_t(first) * kLanes, stride);
        }
    };
    const int items = (count + kHeadTilesAtOnce - 1) / kHeadTilesAtOnce;
    if (count * rows <= kSerialTiles) {
        for (int item = 0; item < items; item++) work(item, 0);
        return;
    }
    pool_.begin();
    pool_.run(items, work);
}
