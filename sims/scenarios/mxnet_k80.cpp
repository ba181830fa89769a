// MXNet on 1 to 256 K80: ResNet-152 and AlexNet on p2.16xlarge, parameter servers on the workers.
#include <gx/model/alexnet.hpp>                     // AlexNet
#include <gx/model/resnet.hpp>                      // ResNet152
#include <gx/sim/catalog/find_machine.hpp>          // p2_16xlarge
#include <gx/sim/timing/parameter_server_time.hpp>  // served_step_time
#include <gx/sim/catalog/comm_stacks.hpp>           // parameter_server_grpc
#include <gx/sim/timing/step_time.hpp>              // step_work

#include "support.hpp"

namespace {

using namespace gx;
using namespace gx::literals;
using scenario::Json;

sim::ClusterSpec cluster(int gpus) {
    sim::ClusterSpec spec{.machine = sim::machine::p2_16xlarge(),
                          .machines = (gpus + 15) / 16,
                          .profile = sim::parameter_server_grpc};
    spec.machine.gpus = std::min(gpus, 16);
    spec.profile.transport.connections = 1;
    spec.profile.transport.connection_cap = 10_Gbps;  // a placement group
    return spec;
}

double rate(const Graph& network, int gpus, int batch) {
    const sim::ClusterSpec spec = cluster(gpus);
    const sim::TimedGraph kernels(network, spec.machine.gpu, sim::Precision::fp32);
    const auto t = sim::served_step_time(sim::step_work(network, kernels, batch), spec,
                                         {.servers = spec.machines});
    return gpus * batch / seconds(t.step);
}

/// All points of a published case, beside the wire alone.
void add(scenario::Scenario& s, const char* name, const char* id, const Graph& network) {
    const Json published = scenario::published(id);
    const Json& measured = published.at("measured");
    const auto r = scenario::predicted(published.at("conditions"), measured);
    s.in_force(fmt::format("{}: {}", name, r.corrections));
    for (const scenario::PredictedPoint& p : r.points)
        s.add({fmt::format("{}, {} GPUs against 1", name, p.gpus), "%",
               measured.at(static_cast<std::size_t>(p.index))
                   .at("efficiency_vs_base_pct")
                   .get<double>(),
               p.efficiency_pct, 6});
    const int batch = published.at("conditions").at("batch_per_gpu").get<int>();
    const double one = rate(network, 1, batch);
    for (const int gpus : {16, 256})
        s.add({fmt::format("wire alone, {}, {} GPUs against 1", name, gpus),
               "%",
               {},
               100 * rate(network, gpus, batch) / gpus / one});
}

scenario::Scenario make() {
    scenario::Scenario s("MXNet on 1 to 256 K80 of p2.16xlarge, batch 32 (ResNet-152) and 512",
                         "github.com/apache/mxnet, example/image-classification, scaling table");
    s.in_force(
        "wire alone: dist_device_sync: keys are summed on one GPU of a machine, pushed to "
        "servers on the workers, pulled and spread; one connection a pair of 10 Gb/s, NIC "
        "20 Gb/s at 0.94, 50 us");
    s.in_force("kernels: gx's roofline of the K80, fp32; a server's sum takes no time");
    add(s, "ResNet-152", "mxnet-p2-resnet-152", graph<ResNet152>());
    add(s, "AlexNet", "mxnet-p2-alexnet", graph<AlexNet>());
    s.say(
        "On the wire alone, at PCIe's and the NIC's rates, nearly all of it would hide behind "
        "backward. What is lost inside one machine is put down to what pairs of GK210 on a "
        "board share, and to copies between peers that reach a part of PCIe's rate: fitted for "
        "the stack, not known. Beyond the first machine little is lost, in both.");
    return s;
}

}  // namespace

int main(int argc, char** argv) { return gx::scenario::run(argc, argv, "mxnet_k80", make); }
