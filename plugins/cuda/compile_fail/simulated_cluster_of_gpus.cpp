// expect: gx: a simulated cluster computes its ranks' steps in the host's memory
#include <gx/cuda/device.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

RunRecord train(sim::Cluster<cuda::Device>& cluster, const Split& data) {
    return Trainer<LeNet, Ring<fp16>>().train(cluster, data);
}
