// Patience: how long a wait lasts, in time in which this process runs.
#pragma once

#include <algorithm>  // max, min
#include <chrono>     // steady_clock
#include <utility>    // exchange

namespace gx::detail {

/// The end of a wait that looks at the clock again and again. Where a process has stood still, in
/// the background of a shell or in a frozen container, its peers may have too: none of them is late
/// because of that. So what passes between two looks counts as `look_every` where it is more than
/// `stood_still`, and a wait goes on for what was left of it.
/// Cost: a look is one at the clock.
class Patience {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr Clock::duration look_every = std::chrono::milliseconds(100);
    static constexpr Clock::duration stood_still = std::chrono::seconds(1);

    /// `limit` from `now` on; for ever where the clock ends before.
    explicit Patience(std::chrono::nanoseconds limit, Clock::time_point now = Clock::now())
        : last_(now),
          end_(limit >= Clock::time_point::max() - now ? Clock::time_point::max() : now + limit) {}

    /// Whether it has ended; called at least every `look_every`.
    bool ended(Clock::time_point now = Clock::now()) {
        const auto passed = now - std::exchange(last_, now);
        if (passed > stood_still && !endless()) {
            const auto lost = passed - look_every;
            end_ = lost >= Clock::time_point::max() - end_ ? Clock::time_point::max() : end_ + lost;
        }
        return now >= end_ && !endless();
    }
    /// A look after a call that may have taken long: what has passed counts.
    void skip(Clock::time_point now = Clock::now()) { last_ = now; }
    [[nodiscard]] std::chrono::nanoseconds left(Clock::time_point now = Clock::now()) const {
        return endless() ? std::chrono::nanoseconds::max()
                         : std::max(end_ - now, Clock::duration(0));
    }
    /// When to look again, at the latest.
    [[nodiscard]] Clock::time_point next_look() const { return std::min(end_, last_ + look_every); }
    [[nodiscard]] bool endless() const { return end_ == Clock::time_point::max(); }

private:
    Clock::time_point last_, end_;
};

}  // namespace gx::detail
