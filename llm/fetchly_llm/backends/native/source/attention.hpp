// Queries of a pass, keys and values in; for each row and head the mixed values of the row's own path out.
//
// A row at position p meets the keys of the logical positions 0 .. p in blocks of 64. Blocks that lie in the cache as
// they are, position for position, are read in place. In the tail the keys of tree nodes lie in slots of their own:
// scores are computed slot by slot (a score is a function of its query and key alone), then put in logical order along
// the row's ancestors; values are fetched in that order. Either way the same numbers meet in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.hpp"
#include "weights.hpp"

// The keys and values of a sequence: keys [layer][kv head][block][dimension][64], values [layer][kv head][block][64]
// [padded dimension], so that a head's are read from end to end. Slot s is position s % 64 of block s / 64.
struct Cache {
    float* keys;
    float* values;
    int64_t blocks;

    int64_t key_block(const Shape& shape, int layer, int64_t block, int head) const {
        return ((int64_t(layer) * shape.kv_heads + head) * blocks + block) * shape.dim * kBlock;
    }
    int64_t value_block(const Shape& shape, int layer, int64_t block, int head) const {
        return ((int64_t(layer) * shape.kv_heads + head) * blocks + block) * kBlock * shape.padded();
    }
};

// Where the keys and values of a pass lie: in the cache, and from block `first_aside` on in a cache of one layer, which
// those of speculative streams have to themselves while their layer runs.
struct Places {
    const Shape& shape;
    Cache cache;
    Cache aside{nullptr, nullptr, 0};
    int64_t first_aside = INT64_MAX;

    float* keys(int layer, int64_t block, int head) const {
        return block < first_aside ? cache.keys + cache.key_block(shape, layer, block, head)
                                   : aside.keys + aside.key_block(shape, 0, block - first_aside, head);
    }
    float* values(int layer, int64_t block, int head) const {
        return block < first_aside ? cache.values + cache.value_block(shape, layer, block, head)
                                   : aside.values + aside.value_block(shape, 0, block - first_aside, head);
    }
};

// Where the rows of a pass stand. Row r is written to `slots[r]`, and stands at `positions[r]`. Its first `straight[r]`
// logical positions lie in the slots of the same numbers, and so do those before `committed` for every row.
struct Plan {
    int committed = 0;
    int rows = 0;
    int depths = 0;  // of the deepest row, and one
    std::vector<int> slots, positions, straight, paths;  // paths: [row][depth], the slots of its ancestors and itself

    // A tree after `committed` positions: row r in slot committed + r.
    void lay_out(int committed, int rows, const int32_t* parents);
    // `count` streams from each of the nodes of a tree, in slots from `first_slot` on. A stream stands after the one
    // before it, the first of them after its node; node -1 is the last committed position.
    void lay_out_streams(const Plan& tree, const int32_t* nodes, int anchors, int count, int first_slot);
    int slot(int row, int position) const {
        return position < committed ? position : paths[size_t(row) * size_t(depths) + size_t(position - committed)];
    }

private:
    void make_room(int committed, int rows, int depths);
};

class Attention {
public:
    Attention(const Shape& shape, const Kernels& kernels, int threads);

    // Make room for a pass and decide how it is shared out; returns the number of items of every layer.
    int prepare(const Plan& plan);
    // One item: queries [row][head][padded], scaled and rotated, -> mixed [row][head][dim].
    void attend(const Places& places, const Plan& plan, int layer, int item, int thread, const float* queries,
                float* mixed);

private:
    struct Item;
    struct Scratch {
        Buffer<float> scores, tail, sums;
        std::vector<float> totals;
        std::vector<const float*> queries, values;
    };

    Item item_of(const Plan& plan, int item) const;
    void score(const Places& places, const Plan& plan, int layer, const Item& item, const float* queries,
               Scratch& scratch);
    void mix(const Places& places, const Plan& plan, int layer, const Item& item, Scratch& scratch);

    Shape shape_;
    const Kernels& kernels_;
    int rows_at_once_ = 1, heads_at_once_ = 1, stride_ = 0;
    std::vector<Scratch> scratch_;
};
