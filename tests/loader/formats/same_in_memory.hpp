// assert_same_in_memory: a source read in place gives what a data set in memory gives.
#pragma once

#include <algorithm>  // equal

#include <gx/loader/dataset.hpp>    // Dataset
#include <gx/loader/in_memory.hpp>  // InMemory
#include <gx/loader/prefetch.hpp>   // Prefetched

#include <rapidcheck.h>

namespace testing_support {

/// In a property: descriptions, hashes and the batches of an epoch are equal to the bit.
template <gx::Source S>
void assert_same_in_memory(const S& source, const gx::Dataset& data) {
    RC_ASSERT(source.info() == data.info());
    RC_ASSERT(source.content() == data.content());
    RC_ASSERT(source.largest_class() == data.largest_class());
    const gx::LoaderOptions o{.batch = *rc::gen::inRange(1, 4), .seed = 3};
    gx::InMemory<gx::Flip> memory(data, o);
    gx::Prefetched<gx::InMemory<gx::Flip>> disk(source, o);
    memory.begin_epoch(0);
    disk.begin_epoch(0);
    for (std::int64_t s = 0; s < memory.steps_per_epoch(); ++s) {
        const gx::RankBatch a = memory.next(), b = disk.next();
        RC_ASSERT(std::ranges::equal(a.batch.images, b.batch.images));
        RC_ASSERT(std::ranges::equal(a.batch.labels, b.batch.labels));
    }
}

}  // namespace testing_support
