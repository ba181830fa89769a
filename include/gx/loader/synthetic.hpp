// SyntheticLoader: generated images of classes that a small network can learn; needs no files.
#pragma once

#include <cstdint>  // int64_t, uint64_t
#include <memory>   // unique_ptr

#include <gx/core/decl.hpp>         // GX_DECL
#include <gx/loader/dataset.hpp>    // Dataset, Split
#include <gx/loader/in_memory.hpp>  // InMemory

namespace gx {

struct SyntheticOptions {
    ImageShape shape{1, 28, 28};
    int classes = 10;
    std::int64_t train_count = 1024;
    std::int64_t test_count = 256;
    int noise = 60;          ///< largest amount added to or taken from a pixel, of 255
    std::uint64_t seed = 0;  ///< of patterns and noise
};

/// Generates train and test images of the same classes, with independent noise; classes in turn.
/// Errors: gx::Error that lists the options outside their ranges.
/// Order:  equal options give equal pixels on every compiler.
[[nodiscard]] GX_DECL Split synthetic(const SyntheticOptions& o);

/// Loader of the training images of `synthetic`, which it owns.
class SyntheticLoader {
public:
    SyntheticLoader(const SyntheticOptions& images, const LoaderOptions& share);

    [[nodiscard]] ImageShape shape() const { return loader_.shape(); }
    [[nodiscard]] int classes() const { return loader_.classes(); }
    [[nodiscard]] std::int64_t images_per_epoch() const { return loader_.images_per_epoch(); }
    [[nodiscard]] std::int64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }
    [[nodiscard]] std::int64_t steps_after(std::int64_t done) const {
        return loader_.steps_after(done);
    }
    void begin_epoch(int epoch, std::int64_t done = 0) { loader_.begin_epoch(epoch, done); }
    [[nodiscard]] RankBatch next() { return loader_.next(); }
    void keep(int batches) { loader_.keep(batches); }

private:
    std::unique_ptr<Dataset> data_;  // on the heap: the loader points to it
    InMemory<> loader_;
};
static_assert(explain_loader<SyntheticLoader>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/synthetic.ipp>
#endif
