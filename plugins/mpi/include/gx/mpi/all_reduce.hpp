// AllReduce<E, Divide>: the mean by MPI's own all-reduce.
#pragma once

#include <string>  // name

#include <gx/reducer/fwd.hpp>                // DivideSplit
#include <gx/reducer/native_all_reduce.hpp>  // NativeAllReduce

namespace gx::mpi {

/// Mean over all ranks by one MPI_Iallreduce for each bucket, over elements E. In worlds without
/// MPI it is Ring<E, Divide>, so that the same type runs on threads and on a simulated cluster.
///
/// Wire:   MPI's choice; bytes_sent counts the bucket once, in elements E, and steps 1. fp16 and
///         bf16 are no types of MPI: they are summed by an operation of ours, in float and rounded
///         at each sum.
/// Order:  MPI's: another one with another version, rank count, length or setting. For bits that
///         repeat take Ring, or another reducer of gx.
/// Errors: as mpi::Transport's all_reduce; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class AllReduce : public NativeAllReduce<E, Divide> {
public:
    [[nodiscard]] static std::string name() { return AllReduce::spelled("mpi::AllReduce<"); }
};

}  // namespace gx::mpi
