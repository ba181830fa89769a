#include <gx/sim/des/event_hash.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::sim::EventHash;
using gx::sim::EventKind;

constexpr std::uint64_t one(std::uint64_t seed, int time, EventKind kind, int rank, std::uint64_t a,
                            std::uint64_t b) {
    EventHash hash(seed);
    hash.add(Nanoseconds(time), kind, rank, a, b);
    return hash.value();
}
// ---- Every part counts; it is the same number during constant evaluation ------------
constexpr std::uint64_t base = one(1, 2, EventKind::charge, 3, 4, 5);
static_assert(base == one(1, 2, EventKind::charge, 3, 4, 5));
static_assert(base != one(2, 2, EventKind::charge, 3, 4, 5));
static_assert(base != one(1, 3, EventKind::charge, 3, 4, 5));
static_assert(base != one(1, 2, EventKind::rank_done, 3, 4, 5));
static_assert(base != one(1, 2, EventKind::charge, 4, 4, 5));
static_assert(base != one(1, 2, EventKind::charge, 3, 5, 4));

RC_GTEST_PROP(EventHash, TheOrderOfTwoEventsCounts, (std::uint64_t a, std::uint64_t b)) {
    RC_PRE(a != b);
    EventHash ab(0), ba(0);
    ab.add(Nanoseconds(1), EventKind::charge, 0, a, 0);
    ab.add(Nanoseconds(1), EventKind::charge, 0, b, 0);
    ba.add(Nanoseconds(1), EventKind::charge, 0, b, 0);
    ba.add(Nanoseconds(1), EventKind::charge, 0, a, 0);
    RC_ASSERT(ab.value() != ba.value());
}

}  // namespace
