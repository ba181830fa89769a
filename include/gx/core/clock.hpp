// Clock: time of a world, wall or virtual: whole nanoseconds since its run began.
#pragma once

#include <concepts>  // same_as

#include <gx/core/units.hpp>  // Nanoseconds

namespace gx {

template <class C>
concept Clock = requires(const C& c) {
    { c.now() } -> std::same_as<Nanoseconds>;
};

namespace archetype {
struct Clock {
    Nanoseconds now() const;
};
}  // namespace archetype
static_assert(Clock<archetype::Clock>);

}  // namespace gx
