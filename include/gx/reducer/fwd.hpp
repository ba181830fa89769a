// The reducers of the core, with their defaults, declared once.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/role.hpp>  // Header

namespace gx {

struct fp32;
struct DivideSplit;

template <class E = fp32, class Divide = DivideSplit>
class Ring;
template <int K, class E = fp32, class Divide = DivideSplit>
class MultiRing;
template <class R, std::int64_t BucketBytes = std::int64_t{25} << 20>
class Bucketed;
template <class R>
class DoubleBuffered;

namespace detail::role {  // what the error says where only this header is included
template <class E, class D>
struct Header<Ring<E, D>> {
    GX_DEFINED_IN("gx/reducer/ring.hpp")
};
template <int K, class E, class D>
struct Header<MultiRing<K, E, D>> {
    GX_DEFINED_IN("gx/reducer/multi_ring.hpp")
};
template <class R, std::int64_t Bytes>
struct Header<Bucketed<R, Bytes>> {
    GX_DEFINED_IN("gx/reducer/bucketed.hpp")
};
template <class R>
struct Header<DoubleBuffered<R>> {
    GX_DEFINED_IN("gx/reducer/double_buffered.hpp")
};
}  // namespace detail::role

}  // namespace gx
