// Ranks of an MPI job, each with a GPU of the runtime's double: the weights of threads.
// Run:    mpirun -n 3 plugins.mpi.gpus
// Prints: on rank 0 "equal" or "DIFFERENT" for each trainer.
// Exit:   0; 1 where weights differ; 2 for an error
#include <cstdio>
#include <exception>

#include <gx/cuda/staged.hpp>
#include <gx/cuda_testing/host_computed.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/mpi/world.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

#include <trainer/small.hpp>

namespace {

using namespace gx;
using testing_support::images;
using testing_support::Net;
using StagedGpu = cuda::Staged<cuda_testing::HostComputed<reference::Device>>;

/// Whether T learns on staged GPUs over MPI what it learns on threads. Nothing is left on a GPU.
template <class T>
bool is_as_on_threads() {
    cuda_testing::reset({});
    const T trainer({.batch = 4, .epochs = 3, .seed = 3});
    const Split data = images(24, 8);
    RunRecord staged, on_threads;
    bool prints = false;
    {
        mpi::World<StagedGpu> world({.announce = false});
        ThreadWorld<reference::Device> threads({.placement = world.placement()});
        on_threads = trainer.train(threads, data);
        staged = trainer.train(world, data);
        prints = world.first_local_rank() == 0;
    }
    cuda_testing::expect_clean();
    const bool equal = staged.weights_hash == on_threads.weights_hash && !staged.steps.empty() &&
                       staged.steps.back().loss == on_threads.steps.back().loss;
    if (prints) std::printf("%s: %s\n", equal ? "equal" : "DIFFERENT", staged.composition.c_str());
    return equal;
}

}  // namespace

int main() try {
    const bool equal[]{
        is_as_on_threads<Trainer<Net, Ring<fp32>, Warmup<Poly<2>>>>(),
        is_as_on_threads<Trainer<Net, Bucketed<Ring<fp16>, 64>, Warmup<Poly<2>>>>(),
        is_as_on_threads<
            Trainer<Net, DoubleBuffered<MultiRing<2, fp16>>, Warmup<Poly<2>>, AdamW>>()};
    for (const bool one : equal)
        if (!one) return 1;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
