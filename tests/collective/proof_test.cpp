#include <gx/collective/proof.hpp>

#include <gtest/gtest.h>

#include <gx/collective/ring.hpp>
#include <gx/collective/tree_broadcast.hpp>

namespace {

using gx::Combine;
using gx::Exchange;
using gx::collective::Flaw;
using gx::collective::Ring;

/// A ring of four with one exchange changed.
struct Bent {
    Ring ring{4};
    int rank = 2, step = 3;
    Exchange (*bend)(Exchange) = [](Exchange e) { return e; };
    int cut_steps = 0;

    [[nodiscard]] constexpr int ranks() const { return 4; }
    [[nodiscard]] constexpr int chunks() const { return 4; }
    [[nodiscard]] constexpr int steps() const { return ring.steps() - cut_steps; }
    [[nodiscard]] constexpr Exchange exchange(int r, int s) const {
        const Exchange e = ring.exchange(r, s);
        return r == rank && s == step ? bend(e) : e;
    }
};
static_assert(gx::collective::is_all_reduce(Bent{}), "unbent it is a ring");

Flaw flaw_of(Bent bent) { return gx::collective::prove_all_reduce(bent).flaw; }

// ---- Each flaw has its name, its place and its sentence --------------------------------
TEST(Proof, NamesEachFlaw) {
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.to = 4;
                               return e;
                           }}),
              Flaw::peer_out_of_range);
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.to = 2;
                               return e;
                           }}),
              Flaw::peer_out_of_range);
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.send_chunk = 4;
                               return e;
                           }}),
              Flaw::chunk_out_of_range);
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.receive_chunk = -1;
                               return e;
                           }}),
              Flaw::another_chunk);
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.from = -1;
                               return e;
                           }}),
              Flaw::send_without_receive);
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.to = -1;
                               return e;
                           }}),
              Flaw::receive_without_send);
    EXPECT_EQ(flaw_of({.bend =
                           [](Exchange e) {
                               e.combine = Combine::add;
                               return e;
                           }}),
              Flaw::contribution_repeated);
    EXPECT_EQ(flaw_of({.step = 1,
                       .bend =
                           [](Exchange e) {
                               e.combine = Combine::copy;
                               return e;
                           }}),
              Flaw::contribution_missing);
    EXPECT_EQ(flaw_of({.cut_steps = 1}), Flaw::contribution_missing);
}

TEST(Proof, SaysWhere) {
    const auto proof = gx::collective::prove_all_reduce(Bent{.bend = [](Exchange e) {
        e.to = -1;
        return e;
    }});
    EXPECT_EQ(proof.rank, 3);  // who waits for what is not sent
    EXPECT_EQ(proof.step, 3);
    EXPECT_EQ(proof.sentence(), "a receive has no send in its step");
    EXPECT_FALSE(proof.holds());
}

TEST(Proof, SaysWhoseContributionIsMissing) {
    EXPECT_EQ(to_string(gx::collective::prove_all_reduce(Bent{.cut_steps = 1})),
              "rank 0, chunk 2: a chunk ends without some rank's contribution (rank 1)");
}

// ---- A collective promises what it does, and no more -------------------------------------
template <class C, gx::Promise promised>
struct Promises : C {
    using C::C;
    static constexpr gx::Promise promise = promised;
};
using gx::collective::RingAllGather;
using gx::collective::RingReduceScatter;
static_assert(!keeps_promise(Promises<RingReduceScatter, gx::Promise::all_reduce>(4)));
static_assert(!keeps_promise(Promises<RingReduceScatter, gx::Promise::all_gather>(4)));
static_assert(!keeps_promise(Promises<RingAllGather, gx::Promise::reduce_scatter>(4)));
static_assert(!keeps_promise(Promises<RingAllGather, gx::Promise::all_reduce>(4)));
static_assert(!keeps_promise(Promises<RingAllGather, gx::Promise::all_to_all>(4)));
static_assert(!keeps_promise(Promises<gx::collective::TreeBroadcast, gx::Promise::all_reduce>(4)));
static_assert(!keeps_promise(Promises<gx::collective::TreeBroadcast, gx::Promise::barrier>(4)));
static_assert(!keeps_promise(Promises<Ring, gx::Promise::barrier>(4)), "it adds");
static_assert(keeps_promise(Promises<RingAllGather, gx::Promise::barrier>(4)),
              "a chunk of every rank reaches every rank");

TEST(Proof, SaysThatABroadcastAdds) {
    struct Adds : gx::collective::TreeBroadcast {
        using TreeBroadcast::TreeBroadcast;
        [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
            Exchange e = TreeBroadcast::exchange(rank, step);
            e.combine = Combine::add;
            return e;
        }
    };
    EXPECT_EQ(to_string(prove(Adds(4))),
              "rank 2, step 0, chunk 0: a step adds in a collective that only copies");
}

// ---- A promise is a property of the type ------------------------------------------------
static_assert(gx::PromisingCollective<Ring> && gx::PromisingCollective<RingAllGather>);
static_assert(gx::Collective<Bent> && !gx::PromisingCollective<Bent>, "names no promise");
static_assert(!gx::PromisingCollective<Promises<Ring, gx::Promise::broadcast>>, "has no root");
static_assert(!gx::PromisingCollective<Promises<Ring, gx::Promise::reduce_scatter>>,
              "names no owners");

// ---- A step's sends are what was there before the step ----------------------------------
/// Two ranks exchange one chunk and add: right only with the values of before the step.
struct Swap {
    [[nodiscard]] constexpr int ranks() const { return 2; }
    [[nodiscard]] constexpr int chunks() const { return 1; }
    [[nodiscard]] constexpr int steps() const { return 1; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int) const {
        return {1 - rank, 0, 1 - rank, 0, rank == 0 ? Combine::add : Combine::add_to_received};
    }
};
static_assert(gx::collective::is_all_reduce(Swap{}));

/// Of two NaNs each keeps its own.
struct BothAdd : Swap {
    [[nodiscard]] constexpr Exchange exchange(int rank, int) const {
        return {1 - rank, 0, 1 - rank, 0, Combine::add};
    }
};
static_assert(gx::collective::prove_all_reduce(BothAdd{}).flaw == Flaw::sums_in_two_orders);

/// Two ranks that both only copy: each ends with the other's.
struct Trade : Swap {
    [[nodiscard]] constexpr Exchange exchange(int rank, int) const {
        return {1 - rank, 0, 1 - rank, 0, Combine::copy};
    }
};
static_assert(!gx::collective::is_all_reduce(Trade{}));

}  // namespace
