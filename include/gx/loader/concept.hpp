// Loader: hands one rank its images, step by step, epoch by epoch.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t

#include <gx/core/device.hpp>  // Batch
#include <gx/core/role.hpp>    // role::may_be
#include <gx/loader/fwd.hpp>   // declarations
#include <gx/model/graph.hpp>  // ImageShape

namespace gx {

/// One rank's share of a data set.
struct LoaderOptions {
    int batch = 0;           ///< images of one rank in a full step
    int ranks = 1;           ///< that share every step
    int rank = 0;            ///< whose share this is
    std::uint64_t seed = 0;  ///< of the order and of augmentation; the same on all ranks
    bool shuffle = true;     ///< false: every epoch in the data set's own order
    int image_side = 0;      ///< images are resized to this height and width; 0: the data's own
    bool pixels = false;     ///< hand out Batch::pixels, which the device normalises
    std::uint64_t draw_offset = 0;  ///< added to Batch::draw, modulo 2^64
};

/// One rank's images of one step, and how many images the step has over all ranks: the tail of
/// an epoch has fewer, and ranks need not have equally many.
struct RankBatch {
    Batch batch{};
    std::int64_t global_count = 0;
};

namespace detail::loader {
template <class L>
concept KnowsItsData = requires(const L& l) {
    { l.shape() } -> std::same_as<ImageShape>;
    { l.classes() } -> std::same_as<int>;
    { l.images_per_epoch() } -> std::same_as<std::int64_t>;
    { l.steps_per_epoch() } -> std::same_as<std::int64_t>;
};
template <class L>
concept WalksAnEpoch = requires(L& l) {
    { l.begin_epoch(int{}) } -> std::same_as<void>;
    { l.next() } -> std::same_as<RankBatch>;
};
template <class L>
concept KeepsBatches = requires(L& l) {
    { l.keep(int{}) } -> std::same_as<void>;
};
}  // namespace detail::loader

/// Images for one rank.
///
///     shape(), classes()   what a model must fit
///     images_per_epoch()   over all ranks
///     steps_per_epoch()    equal on all ranks; the last step may have fewer images
///     begin_epoch(epoch)   to the first step of `epoch`, counted from 0, from wherever it was
///     next()               the next step's batch; at most steps_per_epoch() calls an epoch
///     keep(n)              before the first epoch: the n latest batches stay valid, 2 by default
///
/// A batch lies in the loader's own memory. It stays valid until the next call but one of next(),
/// or until begin_epoch(). Batch::draw is the step's number since epoch 0.
///
/// Order: what a step holds depends on the options and the epoch alone, never on timing.
template <class L>
concept Loader = detail::loader::KnowsItsData<L> && detail::loader::WalksAnEpoch<L> &&
                 detail::loader::KeepsBatches<L>;

/// A loader that can begin an epoch behind its first images. For the rest of an epoch that
/// another number of ranks has begun.
///
///     begin_epoch(epoch, done)   without the first `done` images of the epoch's order, which does
///                                not depend on the number of ranks: steps are cut from there on
///     steps_after(done)          steps of such an epoch; any thread may ask
template <class L>
concept BeginsWithin = Loader<L> && requires(L& l, const L& c) {
    { l.begin_epoch(int{}, std::int64_t{}) } -> std::same_as<void>;
    { c.steps_after(std::int64_t{}) } -> std::same_as<std::int64_t>;
};

template <class L>
consteval bool explain_loader_members() {
    static_assert(detail::loader::KnowsItsData<L>,
                  "gx: not a Loader: one of 'ImageShape shape() const', 'int classes() const', "
                  "'int64_t images_per_epoch() const', 'int64_t steps_per_epoch() const' is "
                  "missing. Runs are planned with them. Fix: add it.");
    static_assert(detail::loader::WalksAnEpoch<L>,
                  "gx: not a Loader: no 'void begin_epoch(int)' or 'RankBatch next()'. "
                  "Training walks through the data with them. Fix: add both.");
    static_assert(detail::loader::KeepsBatches<L>,
                  "gx: not a Loader: no 'void keep(int batches)'. Code that reads ahead needs more "
                  "buffers. Fix: add it; the n latest batches must stay valid.");
    return true;
}

/// Stops at the first of: a header that is missing, a policy of another role, a missing member.
template <class L>
consteval bool explain_loader() {
    using detail::role::Role;
    if constexpr (detail::role::may_be<L, Role::loader>()) return explain_loader_members<L>();
    else return detail::role::reject<L, Role::loader>();
}

namespace archetype {
/// The least type that models Loader.
struct Loader {
    ImageShape shape() const;
    int classes() const;
    std::int64_t images_per_epoch() const;
    std::int64_t steps_per_epoch() const;
    void begin_epoch(int epoch);
    RankBatch next();
    void keep(int batches);
};
}  // namespace archetype
static_assert(explain_loader<archetype::Loader>());

}  // namespace gx
