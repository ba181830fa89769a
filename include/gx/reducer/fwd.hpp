// The reducers of the core, with their defaults, declared once.
#pragma once

#include <cstdint>  // int64_t

namespace gx {

struct fp32;
struct DivideSplit;

template <class E = fp32, class Divide = DivideSplit>
class Ring;
template <int K, class E = fp32, class Divide = DivideSplit>
class MultiRing;
template <class R, std::int64_t BucketBytes>
class Bucketed;
template <class R>
class DoubleBuffered;

}  // namespace gx
