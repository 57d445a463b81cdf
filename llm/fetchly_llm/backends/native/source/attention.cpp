#include "attention.hpp"

#include <algorithm>
#include <climits>
#include <cmath>

namespace {
constexpr int kRowsAtOnce = 8;  // rows whose queries meet a block of keys together
// Blocks that the tails of a pass may touch: 63 positions and kMostRows rows of a tree; or 63 positions and kMostNodes
// nodes, and beside them kMostRows rows of streams.
constexpr int kTailBlocks = 4;
}  // namespace

void Plan::make_room(int first, int count, int deepest) {
    committed = first;
    rows = count;
    depths = deepest;
    for (std::vector<int>* each : {&slots, &positions, &straight}) each->resize(size_t(rows));
    paths.resize(size_t(rows) * size_t(depths));
}

void Plan::lay_out(int first, int count, const int32_t* parents) {
    positions.resize(size_t(count));
    int deepest = 0;
    for (int row = 0; row < count; row++) {
        positions[size_t(row)] = row == 0 ? first : positions[size_t(parents[row])] + 1;
        deepest = std::max(deepest, positions[size_t(row)] - first + 1);
    }
    make_room(first, count, deepest);
    for (int row = 0; row < rows; row++) {
        const int depth = positions[size_t(row)] - committed;
        int* own = paths.data() + int64_t(row) * depths;
        if (row > 0) {
            const int* above = paths.data() + int64_t(parents[row]) * depths;
            std::copy(above, above + depth, own);
        }
        slots[size_t(row)] = own[depth] = committed + row;
        int same = 0;
        while (same <= depth && own[same] == committed + same) same++;
        straight[size_t(row)] = committed + same;
    }
}

void Plan::lay_out_streams(const Plan& tree, const int32_t* nodes, int anchors, int count, int first_slot) {
    make_room(tree.committed, anchors * count, tree.depths + count);
    for (int row = 0; row < rows; row++) {
        const int node = nodes[row / count], first = first_slot + row / count * count;
        const int end = node < 0 ? committed : tree.positions[size_t(node)] + 1;  // of the node's path
        int* own = paths.data() + int64_t(row) * depths;
        if (node >= 0) {
            const int* above = tree.paths.data() + int64_t(node) * tree.depths;
            std::copy(above, above + end - committed, own);
        }
        for (int slot = first; slot <= first_slot + row; slot++) own[end - committed + slot - first] = slot;
        slots[size_t(row)] = first_slot + row;
        positions[size_t(row)] = end + row % count;
        straight[size_t(row)] = node < 0 ? committed : tree.straight[size_t(node)];
    }
}

// The rows and heads of one item, all of them reading one head of keys and values. Every row reads the first `whole`
// blocks in place.
struct Attention::Item {
    int kv_head, head, heads, row, rows, whole, end;
    int queries() const { return rows * heads; }
};

Attention::Attention(const Shape& shape, const Kernels& kernels, int threads)
    : shape_(shape), kernels_(kernels), scratch_(size_t(threads)) {}

int Attention::prepare(const Plan& plan) {
    const int group = shape_.heads / shape_.kv_heads;
    rows_at_once_ = std::min(plan.rows, kRowsAtOnce);
    heads_at_once_ = group;
    const int row_items = (plan.rows + rows_at_once_ - 1) / rows_at_once_;
    // Too few items leave threads without work; keys and values are then read once per head.
    if (row_items * shape_.kv_heads < 2 * int(scratch_.size())) heads_at_once_ = 1;
    const int last = *std::max_element(plan.positions.begin(), plan.positions.end());
    stride_ = (last / kBlock + 1) * kBlock;
    const size_t queries = size_t(rows_at_once_) * size_t(heads_at_once_);
    for (Scratch& scratch : scratch_) {
        if (scratch.scores.size() < queries * size_t(stride_))
            scratch.scores = Buffer<float>(queries * size_t(stride_ + 8 * kBlock));
        if (scratch.tail.size() < queries * kTailBlocks * kBlock)
            scratch.tail = Buffer<float>(queries * kTailBlocks * kBlock);
        if (scratch.sums.size() < queries * size_t(shape_.padded()))
            scratch.sums = Buffer<float>(queries * size_t(shape_.padded()));
        scratch.queries.resize(queries);
        scratch.totals.resize(queries);
        scratch.values.resize(kBlock);
    }
    return row_items * shape_.kv_heads * (group / heads_at_once_);
}

Attention::Item Attention::item_of(const Plan& plan, int number) const {
    const int group = shape_.heads / shape_.kv_heads, parts = group / heads_at_once_;
    Item item{};
    item.kv_head = number / parts % shape_.kv_heads;
    item.head = item.kv_head * group + number % parts * heads_at_once_;
    item.heads = heads_at_once_;
    item.row = number / parts / shape_.kv_heads * rows_at_once_;
    item.rows = std::min(rows_at_once_, plan.rows - item.row);
    int straight = INT_MAX;
    for (int row = item.row; row < item.row + item.rows; row++) {
        straight = std::min({straight, plan.straight[size_t(row)], plan.positions[size_t(row)] + 1});
        item.end = std::max(item.end, plan.slots[size_t(row)] + 1);
    }
    item.whole = straight / kBlock;
    return item;
}

void Attention::attend(const Places& places, const Plan& plan, int layer, int number, int thread, const float* queries,
                       float* mixed) {
    const Item item = item_of(plan, number);
    Scratch& scratch = scratch_[size_t(thread)];
    score(places, plan, layer, item, queries, scratch);
    mix(places, plan, layer, item, scratch);
    for (int query = 0; query < item.queries(); query++) {
        const int row = item.row + query / item.heads, head = item.head + query % item.heads;
        const float* sums = scratch.sums.data() + int64_t(query) * shape_.padded();
        float* out = mixed + (int64_t(row) * shape_.heads + head) * shape_.dim;
        std::copy(sums, sums + shape_.dim, out);
    }
}

void Attention::score(const Places& places, const Plan& plan, int layer, const Item& item, const float* queries,
                      Scratch& scratch) {
    const int padded = shape_.padded(), count = item.queries();
    for (int query = 0; query < count; query++) {
        const int row = item.row + query / item.heads, head = item.head + query % item.heads;
        scratch.queries[size_t(query)] = queries + (int64_t(row) * shape_.heads + head) * padded;
    }
    auto keys = [&](int block) { return places.keys(layer, block, item.kv_head); };
    for (int block = 0; block < item.whole; block++)
        kernels_.scores(scratch.queries.data(), count, keys(block), shape_.dim,
                        scratch.scores.data() + block * kBlock, stride_);

    const int first = item.whole * kBlock, tail_stride = kTailBlocks * kBlock;
    for (int block = item.whole; block * kBlock < item.end; block++)
        kernels_.scores(scratch.queries.data(), count, keys(block), shape_.dim,
                        scratch.tail.data() + block * kBlock - first, tail_stride);
    for (int query = 0; query < count; query++) {
        const int row = item.row + query / item.heads, position = plan.positions[size_t(row)];
        const float* tail = scratch.tail.data() + int64_t(query) * tail_stride;
        float* scores = scratch.scores.data() + int64_t(query) * stride_;
        const int straight = std::min(plan.straight[size_t(row)], position + 1), blocks = position / kBlock + 1;
        int at = std::max(first, straight);
        std::copy(tail, tail + at - first, scores + first);
        for (; at <= position; at++) scores[at] = tail[plan.slot(row, at) - first];
        for (; at < blocks * kBlock; at++) scores[at] = -INFINITY;
    }
}

void Attention::mix(const Places& places, const Plan& plan, int layer, const Item& item, Scratch& scratch) {
    const int padded = shape_.padded(), count = item.queries();
    float* sums = scratch.sums.data();
    std::fill(sums, sums + int64_t(count) * padded, 0.0f);
    std::vector<float>& totals = scratch.totals;
    for (int query = 0; query < count; query++) {
        const int position = plan.positions[size_t(item.row + query / item.heads)];
        float* scores = scratch.scores.data() + int64_t(query) * stride_;
        totals[size_t(query)] = kernels_.softmax(scores, position / kBlock + 1);
    }
    auto values = [&](int block) { return places.values(layer, block, item.kv_head); };
    for (int block = 0; block < item.whole; block++)
        kernels_.mix(scratch.scores.data() + block * kBlock, stride_, count, values(block), kBlock, padded, sums);

    for (int row = item.row; row < item.row + item.rows; row++) {
        const int query = (row - item.row) * item.heads, position = plan.positions[size_t(row)];
        for (int first = item.whole * kBlock; first <= position; first += kBlock) {
            const int number = std::min(kBlock, position + 1 - first);
            for (int i = 0; i < number; i++) {
                const int slot = plan.slot(row, first + i);
                scratch.values[size_t(i)] = values(slot / kBlock) + slot % kBlock * padded;
            }
            kernels_.mix_gathered(scratch.scores.data() + int64_t(query) * stride_ + first, stride_, item.heads,
                                  scratch.values.data(), number, padded, sums + int64_t(query) * padded);
        }
    }
    for (int query = 0; query < count; query++)
        for (int i = 0; i < padded; i++) sums[int64_t(query) * padded + i] /= totals[size_t(query)];
}
