// AllReduce<E, Divide>: the mean by NCCL's own all-reduce.
#pragma once

#include <string>  // name

#include <gx/reducer/fwd.hpp>                // DivideSplit
#include <gx/reducer/native_all_reduce.hpp>  // NativeAllReduce

namespace gx::nccl {

/// Mean over all ranks by one ncclAllReduce for each bucket, over elements E. In worlds without
/// NCCL it is Ring<E, Divide>, so that the same type runs on a simulated cluster.
///
/// Wire:   NCCL's choice; bytes_sent counts the bucket once, in elements E, and steps 1.
/// Order:  NCCL's: another one with another version, topology, rank count or setting. All ranks end
///         bitwise equal; nothing else repeats. For bits that repeat take Ring or MultiRing.
/// Errors: as nccl::Transport's; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class AllReduce : public NativeAllReduce<E, Divide> {
public:
    [[nodiscard]] static std::string name() { return AllReduce::spelled("nccl::AllReduce<"); }
};

}  // namespace gx::nccl
