// Conformance: checks of every promise a reducer makes, on any world.
#pragma once

#include <cstdint>     // seeds
#include <functional>  // laws
#include <span>        // gradients
#include <string>      // sentences
#include <vector>      // states

#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/testing/any_rank.hpp>    // AnyWorld, any_world
#include <gx/testing/report.hpp>      // ConformanceReport
#include <gx/testing/rows.hpp>        // Rows
#include <gx/testing/under_test.hpp>  // ReducerUnderTest
#include <gx/testing/worlds.hpp>      // OnThreads

namespace gx::testing {

/// skip(rank, own gradient, averaged gradient): the decision to skip a step.
using Decision = std::function<bool(int, std::span<const float>, std::span<const float>)>;
/// The state that a checkpoint gives back to each rank, of the states that the ranks had.
using Checkpointing = std::function<std::vector<std::vector<float>>(
    const std::vector<std::vector<float>>& state_by_rank)>;
/// A sentence about what is wrong, or "": of the gradients and of the results, both [job][rank].
using Law =
    std::function<std::string(const std::vector<Rows>& before, const std::vector<Rows>& after)>;

[[nodiscard]] inline std::vector<std::vector<float>> keep_every_state(
    const std::vector<std::vector<float>>& state_by_rank) {
    return state_by_rank;
}

// ---- Checks of a reducer behind functions; tests call the templates below -------------------

GX_DECL void check_agreement(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             ConformanceReport& report);
GX_DECL void check_means(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                         ConformanceReport& report);
GX_DECL void check_sequence(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report);
GX_DECL void check_arrival(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                           ConformanceReport& report);
GX_DECL void check_overflow(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report);
GX_DECL void check_staleness(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             ConformanceReport& report);
GX_DECL void check_lost_rank(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             ConformanceReport& report);
GX_DECL void check_state(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                         const Checkpointing& checkpoint, ConformanceReport& report);
GX_DECL void check_skipped(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                           ConformanceReport& report);
GX_DECL void check_loss_scale(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                              ConformanceReport& report);
GX_DECL void check_telescoping(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                               ConformanceReport& report);
GX_DECL void check_progress(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report);
GX_DECL void check_unbiased(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report);
GX_DECL void check_law(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                       const Law& law, ConformanceReport& report);
GX_DECL void check_decision(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            const Decision& decide, ConformanceReport& report);
GX_DECL void check_worlds(const ReducerUnderTest& r, const AnyWorld& one, const AnyWorld& other,
                          std::uint64_t seed, ConformanceReport& report);
GX_DECL void check_all(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                       ConformanceReport& report);

// ---- The same for a reducer type on a world -------------------------------------------------
//
// An exception that ends a world, such as a race that a simulated cluster found, is a violation
// with the check "exception".

/// Reductions are complete and all ranks end with the same bits. So they do at every placement and
/// length, whole and in buckets.
/// For each of them also: bytes_sent is what was sent, and steps are the message_rounds that were
/// counted, or those of R's plan, which counts idle rounds too ("traffic"); channels are those that
/// R announces ("channels"); every message was waited for and unchanged until then ("messages");
/// none of the 256 values before and behind a gradient was written ("bucket", in other checks too).
/// Check "agreement". Any accuracy.
/// Steps are only bounded from below where R cuts the bucket, and, if R has no plan, at lengths
/// below 8 * ranks * channels, where chunks may be empty.
template <Reducer R, class Worlds>
void check_agreement(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_agreement(under_test<R, false>(), any_world(on), seed, report);
}

/// As check_agreement, and the values are the mean: exact for small integers where the rank count
/// is a power of two, within mean_bounds otherwise. Check "mean". Accuracy: rounded.
///
///     ranks    1 to 8 in several placements, 7 x 1, 3 x 3, 16 x 1, 5 x 4
///     lengths  0 to 70, around multiples of ranks * channels, 1000, 1025, 4097, 65 537, and
///              drawn by seed: at 2 and 3 ranks 4 each from 2048 to 100 000, of all residues modulo
///              8; at 4 to 8 ranks, and at 1, one each from 2048 to 10 000
///     values   small integers, 2^-6 to 2^6, the wire's smallest subnormal to its largest / n
///
/// An error below the bound is accepted, such as a relative error of 2^-22 on an fp16 wire. Above
/// it are a flush of subnormals to 0, and one rounding to the wire more than mean_bound counts.
template <Reducer R, class Worlds>
void check_means(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_means(under_test<R, false>(), any_world(on), seed, report);
}

/// Two equal runs of two reductions have equal bits, with state or without. Without: a reduction
/// does not depend on earlier ones, and 1 000 equal calls give equal bits. What needs more calls is
/// not found. Check "sequence"; for a reducer with state, check_state applies.
template <Reducer R, class Worlds>
void check_sequence(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_sequence(under_test<R, false>(), any_world(on), seed, report);
}

/// The bits do not depend on the order in which messages arrive, which is varied by seed; receive
/// buffers are not read before their wait, nor send buffers written. Check "arrival"; skipped
/// where the world has no `reordered(seed)`. Any accuracy, for reducers that are deterministic.
template <Reducer R, class Worlds>
void check_arrival(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_arrival(under_test<R, false>(), any_world(on), seed, report);
}

/// A value that is not finite on one rank ends so on all alike. One that overflows on the wire
/// does, too. Both hold where no value of a bucket is finite, and in any bucket of a gradient.
/// Rounded: at its own element, and other elements keep their means; other accuracies: at some
/// element, so that the step is skipped. All ranks end with the same bits, NaNs too.
/// Check "overflow".
///
///     ranks    12 elements: 2, 3 and 2 x 4, whole and in buckets of 5; all of them at 1, 2, 2 x 2
///     lengths  in the first, the middle or the last element alone: 64 at 1 to 5, 2 x 3 and 7
///              ranks; 257 at 2 and 3; 4 097 at 2
template <Reducer R, class Worlds>
void check_overflow(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_overflow(under_test<R, false>(), any_world(on), seed, report);
}

/// Through a Pipeline, step t applies gradient t - staleness as the reducer on its own reduces it:
/// none lost, none repeated, the last ones at the end. Rounded: also equal to the exact mean of
/// small integers. Check "staleness".
template <Reducer R, class Worlds>
void check_staleness(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_staleness(under_test<R>(), any_world(on), seed, report);
}

/// A rank that takes no part leaves reductions incomplete, and nothing hangs. Every other rank
/// reports an incomplete reduction, and at least one names the lost rank. So, too, when it takes
/// none behind a gradient's first bucket, or its first two, or behind a first gradient.
/// Check "lost rank".
///
///     ranks    2, 3 and 5 on one machine, 2 x 2 without the first of a machine; where ranks are
///              threads 3 x 1, 2 x 3 without its last and 2 x 2 without another, too: processes
///              may wait for each other until the deadline; in buckets 2 and 3; behind a first
///              gradient 2, and where ranks are threads 3 and 2 x 2
template <Reducer R, class Worlds>
void check_lost_rank(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_lost_rank(under_test<R, false>(), any_world(on), seed, report);
}

/// A fresh reducer that is given each rank's saved state() continues bit for bit. So nothing is
/// kept beside state(), and each rank gets its own; a replicated state is equal on all ranks.
/// `checkpoint` is what is under test where it is not the reducer. Saved after 4 and after 250
/// calls, continued for as many; what needs more is not found. Check "state". Any accuracy.
template <Reducer R, class Worlds>
void check_state(const Worlds& on, std::uint64_t seed, ConformanceReport& report,
                 const Checkpointing& checkpoint = keep_every_state) {
    check_state(under_test<R, false>(), any_world(on), seed, checkpoint, report);
}

/// The gradient of a skipped step leaves nothing behind: later reductions and state() have the bits
/// of a run that never had it, after one, two and three in a row. Steps are skipped for an infinity
/// of either sign or a NaN, of any rank, in the first, the middle or the last element, which are in
/// buckets of their own. Check "skipped". Any accuracy; for reducers with state.
///
///     ranks    1, 2, 3 and 2 x 2 in three buckets; 2, 3 and 2 x 3 whole; with the next gradient
///              begun before one is settled, as in DoubleBuffered, 2 in three buckets, 2 x 2 whole
template <Reducer R, class Worlds>
void check_skipped(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_skipped(under_test<R, false>(), any_world(on), seed, report);
}

/// Gradients times a changing loss scale give the means without it times the scale. They do bit for
/// bit, and with the same state(), where the scale changes from one to the next by powers of two:
/// what a reducer keeps is in unscaled units. Check "loss scale". Any accuracy.
///
///     ranks    as check_skipped
///     scales   1/2 to 65 536, where steps are skipped at 1/2, 2048 and 65 536
template <Reducer R, class Worlds>
void check_loss_scale(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_loss_scale(under_test<R, false>(), any_world(on), seed, report);
}

/// The telescoping law of error feedback: the applied gradients plus the mean of the ranks'
/// residuals equal the sum of the mean gradients, after each of 450 steps at 2 ranks, of 60 at 3
/// and 7, and of 20 at 1 to 8, of 24 elements whole and in buckets of 10, and after each of a few
/// of 65 to 65,600 elements, at 2 and 3 ranks, within a bound derived from the roundings of each
/// step.
/// Check "telescoping".
/// Accuracy: error_feedback.
template <Reducer R, class Worlds>
void check_telescoping(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_telescoping(under_test<R, false>(), any_world(on), seed, report);
}

/// What error feedback keeps it applies later: of 200 equal steps, else of 2,000, in which ranks
/// have gradients of 1, 4, 9 ... times the first one's, or of the last one's, the average that was
/// applied is no further from their mean than half of its length. The telescoping law holds for a
/// reducer that keeps all, or all but one rank's. The same holds for each eight elements that are
/// drawn from the eighths of 4,097 elements, in buckets of 1,000, and of 65,600: within 40 steps in
/// which they alone are not 0, or in which no element is, or else 2,000 of the first kind. In these
/// one that sends a random 200th of its elements has sent each. Check "progress".
/// Accuracy: error_feedback.
template <Reducer R, class Worlds>
void check_progress(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_progress(under_test<R, false>(), any_world(on), seed, report);
}

/// The average over equal gradients is no further from their mean than chance allows. So far chance
/// takes one value in 10^11, by Bernstein's inequality: over 1,000 reductions of 16 elements of
/// magnitudes from 2^-6 to 2^6 at 2 ranks; and over 20 reductions, else over 200, else, of no more
/// than 4,097 elements, over 2,000, of each of 65 to 65,600 elements of like magnitude, and of each
/// 64 of them projected on their mean. A value's variance, in parts of its magnitude, is taken to
/// be at least that of all of them. Check "bias". Where equal gradients draw other values, so they
/// do under another plan.seed: check "seed". Whether ranks, or buckets, draw alike is not looked
/// at: both are unbiased, but where all ranks draw alike the variance does not fall with their
/// number.
/// Accuracy: unbiased.
///
///     ranks    1 to 8 at 65 elements, whole or in four buckets; 2 at 4,097 and 65,600, whole; 3 at
///              4,097 in five buckets
template <Reducer R, class Worlds>
void check_unbiased(const Worlds& on, std::uint64_t seed, ConformanceReport& report) {
    check_unbiased(under_test<R, false>(), any_world(on), seed, report);
}

/// `law` holds for consecutive reductions at several placements. Check "law". Any accuracy.
template <Reducer R, class Worlds>
void check_law(const Worlds& on, std::uint64_t seed, const Law& law, ConformanceReport& report) {
    check_law(under_test<R, false>(), any_world(on), seed, law, report);
}

/// All ranks decide alike, and skip exactly when the mean is not finite: for an infinity of either
/// sign or a NaN, in the first, the middle or the last element, of any rank; and not for a mean
/// whose sum is half of the wire's largest value. Check "decision".
template <Reducer R, class Worlds>
void check_decision(const Worlds& on, std::uint64_t seed, const Decision& decide,
                    ConformanceReport& report) {
    check_decision(under_test<R, false>(), any_world(on), seed, decide, report);
}

/// Two worlds give the same bits. Check "world".
template <Reducer R, class One, class Other>
void check_worlds(const One& one, const Other& other, std::uint64_t seed,
                  ConformanceReport& report) {
    check_worlds(under_test<R, false>(), any_world(one), any_world(other), seed, report);
}

/// All checks that apply to a reducer's accuracy, on one world; where a reduction without a fault
/// meets its deadline, none behind it. First, vectors of state() that are
/// laid out as a gradient are as long as one that goes in buckets: check "state".
///
///     const auto report = gx::testing::check<MyReducer>(gx::testing::OnThreads{});
///     EXPECT_TRUE(report.empty()) << report.text();
template <class R, class Worlds>
[[nodiscard]] ConformanceReport check(const Worlds& on, std::uint64_t seed = 1) {
    static_assert(explain_reducer<R>());
    ConformanceReport report;
    check_all(under_test<R>(), any_world(on), seed, report);
    return report;
}

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/conformance.ipp>
#include <gx/testing/impl/conformance_state.ipp>
#endif
