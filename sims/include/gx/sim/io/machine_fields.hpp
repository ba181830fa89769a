// JSON fields of GPUs, machines, fabrics and clusters; names end in their number's unit.
#pragma once

#include <gx/sim/hardware/machine.hpp>  // ClusterSpec, Wiring

// F is a FieldReader or a FieldWriter; the struct is const where it is written.
namespace gx::sim::detail::machine_json {

template <class F, class E>
void describe_efficiency(F& f, const char* convolution, const char* linear, const char* memory,
                         E& e) {
    f.field(convolution, e.convolution);
    f.field(linear, e.linear);
    f.field(memory, e.memory);
}
template <class F, class G>
void describe_gpu(F& f, G& g) {
    f.field("name", g.name);
    f.field("fp32_tflops", g.fp32);
    f.field("tensor_fp16_tflops", g.tensor_fp16);
    f.field("tf32_tflops", g.tf32);
    f.field("fp16_tflops", g.fp16);
    f.field("memory_gb", g.memory);
    f.field("memory_gb_per_s", g.memory_bandwidth);
    f.field("launch_us", g.launch);
    f.field("multiprocessors", g.multiprocessors, 0, 10'000);
    f.field("copy_engines", g.copy_engines, 0, 100);
    describe_efficiency(f, "fp32_convolution_share", "fp32_linear_share", "fp32_memory_share",
                        g.efficiency_fp32);
    describe_efficiency(f, "mixed_convolution_share", "mixed_linear_share", "mixed_memory_share",
                        g.efficiency_mixed);
    describe_efficiency(f, "tf32_convolution_share", "tf32_linear_share", "tf32_memory_share",
                        g.efficiency_tf32);
    f.field("winograd_gain", g.winograd);
}
template <class F, class M>
void describe_machine(F& f, M& m) {
    f.field("gpus", m.gpus, 1, 1024);
    f.field("peer_gb_per_s", m.peer_bandwidth);
    f.field("peer_flow_cap_gb_per_s", m.peer_flow_cap);
    f.field("peer_latency_us", m.peer_latency);
    f.field("host_gb_per_s", m.host_bandwidth);
    f.field("nics", m.nics, 0, 1024);
    f.field("nic_gbps", m.nic_line_rate);
    f.field("host_memory_gb", m.host_memory);
    f.field("price_usd_per_hour", m.price);
    f.field("spot_usd_per_hour", m.spot_price);
    f.field("price_date", m.price_date);
    f.field("purchase_usd", m.purchase_price);
    f.field("profile", m.profile);
}
template <class F, class W>
void describe_wiring(F& f, W& w) {
    f.field("nvlink_gb_per_s", w.nvlink);
    f.field("nvswitch_links", w.nvswitch_links, 0, 255);
    f.field("sockets", w.sockets, 1, Wiring::most_sockets);
    f.field("socket_link_gb_per_s", w.socket_link);
    f.field("peer_penalty", w.peer_penalty);
}
template <class F, class X>
void describe_fabric(F& f, X& x) {
    f.field("machines_per_leaf", x.machines_per_leaf, 1, 1'000'000);
    f.field("spines", x.spines, 1, 1'000'000);
    f.field("oversubscription", x.oversubscription);
    f.field("ports", x.ports, 2, 256);
    f.field("groups", x.groups, 1, 1'000'000);
    f.field("routers", x.routers, 1, 1'000'000);
    f.field("global_links", x.global_links, 0, 1'000'000);
    f.field("extent_x", x.extent[0], 1, 1'000'000);
    f.field("extent_y", x.extent[1], 1, 1'000'000);
    f.field("extent_z", x.extent[2], 1, 1'000'000);
    f.field("link_gbps", x.link_rate);
}
template <class F, class T>
void describe_transport(F& f, T& t) {
    f.field("latency_us", t.latency);
    f.field("goodput", t.goodput);
    f.field("nic_cap_gbps", t.nic_cap);
    f.field("connection_cap_gbps", t.connection_cap);
    f.field("connections", t.connections, 1, 1024);
    f.field("through_host", t.through_host);
}
template <class F, class C>
void describe_cluster(F& f, C& c) {
    f.field("machines", c.machines, 1, 1'000'000);
    f.field("latency_us", c.latency);
    f.field("flow_cap_gbps", c.flow_cap);
    f.field("goodput", c.goodput);
}

}  // namespace gx::sim::detail::machine_json
