// Timetable: the first step of each phase.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <utility>  // move
#include <vector>   // phases

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/trainer/rank/timetable.hpp>

namespace gx::detail::trainer {

GX_DECL Timetable::Timetable() : Timetable(1, {Entry{}}) {}

GX_DECL Timetable::Timetable(std::int64_t images, std::vector<Entry> phases)
    : images_(images), phases_(std::move(phases)) {
    GX_EXPECT(!phases_.empty() && phases_[0].first_epoch == 0, "a run begins with a phase");
    std::int64_t step = 0;
    for (std::size_t p = 0; p < phases_.size(); ++p) {
        if (p > 0)
            step +=
                (phases_[p].first_epoch - phases_[p - 1].first_epoch) * steps_per_epoch(int(p) - 1);
        first_steps_.push_back(step);
    }
}

}  // namespace gx::detail::trainer
