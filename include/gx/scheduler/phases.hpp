// Phases: batch size and image size, phase by phase of a run, in one validated value.
#pragma once

#include <algorithm>         // copy
#include <array>             // the list
#include <initializer_list>  // as it is written
#include <span>              // as it is read

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// From `first_epoch` until the next phase begins.
struct Phase {
    int first_epoch = 0;
    int batch = 0;       ///< images of one rank in a step
    int image_side = 0;  ///< height and width in pixels
    constexpr bool operator==(const Phase&) const = default;
};

/// The phases of a run, from epoch 0, in rising order.
///
///     constexpr Phases phases{{0, 128, 24}, {10, 64, 28}};
///
/// Errors: a list that is empty or longer than 16, that does not start at epoch 0 or does not
///         rise, or a batch or side below 1, breaks the contract: as a constant it does not
///         compile.
/// Source: image size per phase as in Howard et al. 2018, fast.ai DAWNBench; batch size per phase
///         as in Smith et al. 2017, arXiv:1711.00489.
class Phases {
public:
    static constexpr std::size_t most = 16;

    constexpr Phases(std::initializer_list<Phase> phases)
        : Phases(std::span<const Phase>(phases.begin(), phases.size())) {}

    constexpr explicit Phases(std::span<const Phase> phases) : count_(phases.size()) {
        GX_EXPECT(!phases.empty() && phases.size() <= most, "a run has 1 to 16 phases");
        GX_EXPECT(phases.front().first_epoch == 0, "the first phase begins at epoch 0");
        std::copy(phases.begin(), phases.end(), phases_.begin());
        for (std::size_t i = 0; i < count_; ++i) {
            GX_EXPECT(i == 0 || phases[i - 1].first_epoch < phases[i].first_epoch,
                      "each phase begins later than the one before");
            GX_EXPECT(phases[i].batch > 0, "a phase has a batch of at least 1");
            GX_EXPECT(phases[i].image_side > 0, "a phase has images of at least one pixel");
        }
    }

    [[nodiscard]] constexpr std::span<const Phase> all() const {
        return std::span(phases_).first(count_);
    }

    /// The phase that `epoch` lies in. Errors: an epoch below 0 breaks the contract.
    [[nodiscard]] constexpr const Phase& at(int epoch) const {
        GX_EXPECT(epoch >= 0, "epochs count from 0");
        std::size_t i = count_ - 1;
        while (phases_[i].first_epoch > epoch) --i;
        return phases_[i];
    }

private:
    std::array<Phase, most> phases_{};
    std::size_t count_ = 0;
};

}  // namespace gx
