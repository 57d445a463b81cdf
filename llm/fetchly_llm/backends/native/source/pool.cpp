#include "pool.hpp"

#include <cfenv>

#ifndef _WIN32
#include <unistd.h>
static int process() { return int(getpid()); }
#else
static int process() { return 0; }
#endif

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
static void pause_briefly() { _mm_pause(); }
#else
static void pause_briefly() { std::this_thread::yield(); }
#endif

namespace {
constexpr int kSpins = 3000;  // some tens of microseconds
constexpr int kCountBits = 20, kNextBits = 20;
constexpr uint64_t kMask = (uint64_t(1) << kNextBits) - 1;

uint64_t next_of(uint64_t ticket) { return ticket & kMask; }
uint64_t count_of(uint64_t ticket) { return (ticket >> kNextBits) & kMask; }
uint64_t round_of(uint64_t ticket) { return ticket >> (kNextBits + kCountBits); }
bool has_work(uint64_t ticket) { return next_of(ticket) < count_of(ticket); }
}  // namespace

Pool::Pool(int threads) : process_(process()) {
    for (int thread = 1; thread < threads; thread++) workers_.emplace_back([this, thread] { work(thread); });
}

Pool::~Pool() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
    }
    condition_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

bool Pool::orphaned() {
    alone_ = alone_ || process() != process_;
    return alone_;
}

void Pool::wake() {
    if (sleepers_.load() == 0) return;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        wakes_++;
    }
    condition_.notify_all();
}

void Pool::share(int count, Call call, const void* task) {
    // Items of the round before are done, and a thread that has claimed none reads neither call nor task.
    call_ = call;
    task_ = task;
    done_.store(0, std::memory_order_relaxed);
    uint64_t round = round_of(ticket_.load(std::memory_order_relaxed)) + 1;
    ticket_.store(round << (kNextBits + kCountBits) | uint64_t(count) << kNextBits);
    wake();
    while (claim_one(0)) {
    }
    // The rest is in the hands of others, at most one item each.
    for (int spins = 0; done_.load(std::memory_order_acquire) < count; spins++) {
        if (spins < kSpins)
            pause_briefly();
        else
            std::this_thread::yield();
    }
}

bool Pool::claim_one(int thread) {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (has_work(ticket)) {
        if (ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) {
            call_(task_, int(next_of(ticket)), thread);
            done_.fetch_add(1, std::memory_order_release);
            return true;
        }
    }
    return false;
}

void Pool::work(int thread) {
    std::fesetenv(FE_DFL_ENV);  // whoever made this thread may round otherwise, or flush small numbers to zero
    for (int spins = 0; !stopping_.load(std::memory_order_relaxed);) {
        if (claim_one(thread)) {
            spins = 0;
            continue;
        }
        if (++spins < kSpins) {
            pause_briefly();
            continue;
        }
        spins = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        sleepers_.fetch_add(1);
        uint64_t before = wakes_;
        if (!has_work(ticket_.load()) && !stopping_)
            condition_.wait(lock, [&] { return wakes_ != before || stopping_; });
        sleepers_.fetch_sub(1);
    }
}
