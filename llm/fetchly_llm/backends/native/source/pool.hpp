// A number of independent items of work in; all of them done, by this thread and a few others, out.
//
// Items are claimed one by one, so that a thread which the system takes away for a while holds up no more than the item
// in its hands. The order and the thread of an item mean nothing to its result (see kernels.hpp). Threads look for work
// for some microseconds after the last item, as a step gives them some every few; then they sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
public:
    explicit Pool(int threads);  // this thread included
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return int(workers_.size()) + 1; }

    // Call work(item, thread) once for each item of 0 .. count - 1; return when all calls have.
    template <typename Work>
    void run(int count, const Work& work) {
        if (workers_.empty() || alone_ || count <= 1) {
            for (int item = 0; item < count; item++) work(item, 0);
            return;
        }
        share(count, [](const void* task, int item, int thread) { (*static_cast<const Work*>(task))(item, thread); },
              &work);
    }

    // Work is about to come: wake sleeping threads. In a fork of the process that has them, find that there are none.
    void begin() {
        if (!orphaned()) wake();
    }

    // Whether this is a fork's copy, whose threads are elsewhere; it works alone, and cannot be destroyed.
    bool orphaned();

private:
    using Call = void (*)(const void* task, int item, int thread);

    void wake();
    void share(int count, Call call, const void* task);
    bool claim_one(int thread);
    void work(int thread);

    // Round, number of items and next item in one word: a claim can only succeed in the round that it read.
    std::atomic<uint64_t> ticket_{0};
    std::atomic<int> done_{0};
    Call call_ = nullptr;
    const void* task_ = nullptr;

    std::atomic<int> sleepers_{0};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::condition_variable condition_;
    uint64_t wakes_ = 0;
    std::vector<std::thread> workers_;
    const int process_;
    bool alone_ = false;
};
