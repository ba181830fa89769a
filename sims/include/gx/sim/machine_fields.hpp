// The JSON fields of GPUs, machines, fabrics and clusters, each with the unit in its name.
#pragma once

#include <gx/sim/machine.hpp>  // ClusterSpec, Wiring

// F is a FieldReader or a FieldWriter; the struct is const where it is written.
namespace gx::sim::detail::machine_json {

inline constexpr double gb = 1e9, gbit = 1e9 / 8, us = 1e-6, tera = 1e12;

template <class F, class E>
void describe_efficiency(F& f, const char* convolution, const char* linear, const char* memory,
                         E& e) {
    f.share(convolution, e.convolution);
    f.share(linear, e.linear);
    f.share(memory, e.memory);
}
template <class F, class G>
void describe_gpu(F& f, G& g) {
    f.text("name", g.name);
    f.quantity("fp32_tflops", g.fp32, tera);
    f.quantity("tensor_fp16_tflops", g.tensor_fp16, tera);
    f.quantity("tf32_tflops", g.tf32, tera);
    f.quantity("fp16_tflops", g.fp16, tera);
    f.bytes("memory_gb", g.memory, gb);
    f.quantity("memory_gb_per_s", g.memory_bandwidth, gb);
    f.time("launch_us", g.launch, us);
    f.integer("multiprocessors", g.multiprocessors, 0, 10'000);
    f.integer("copy_engines", g.copy_engines, 0, 100);
    describe_efficiency(f, "fp32_convolution_share", "fp32_linear_share", "fp32_memory_share",
                        g.efficiency_fp32);
    describe_efficiency(f, "mixed_convolution_share", "mixed_linear_share", "mixed_memory_share",
                        g.efficiency_mixed);
    describe_efficiency(f, "tf32_convolution_share", "tf32_linear_share", "tf32_memory_share",
                        g.efficiency_tf32);
    f.number("winograd_gain", g.winograd);
}
template <class F, class M>
void describe_machine(F& f, M& m) {
    f.integer("gpus", m.gpus, 1, 1024);
    f.quantity("peer_gb_per_s", m.peer_bandwidth, gb);
    f.quantity("peer_flow_cap_gb_per_s", m.peer_flow_cap, gb);
    f.time("peer_latency_us", m.peer_latency, us);
    f.quantity("host_gb_per_s", m.host_bandwidth, gb);
    f.integer("nics", m.nics, 0, 1024);
    f.quantity("nic_gbps", m.nic_line_rate, gbit);
    f.bytes("host_memory_gb", m.host_memory, gb);
    f.quantity("price_usd_per_hour", m.price, 1);
    f.quantity("spot_usd_per_hour", m.spot_price, 1);
    f.text("price_date", m.price_date);
    f.quantity("purchase_usd", m.purchase_price, 1);
}
template <class F, class W>
void describe_wiring(F& f, W& w) {
    f.quantity("nvlink_gb_per_s", w.nvlink, gb);
    f.integer("nvswitch_links", w.nvswitch_links, 0, 255);
    f.integer("sockets", w.sockets, 1, Wiring::most_sockets);
    f.quantity("socket_link_gb_per_s", w.socket_link, gb);
    f.number("peer_penalty", w.peer_penalty);
}
template <class F, class X>
void describe_fabric(F& f, X& x) {
    f.integer("machines_per_leaf", x.machines_per_leaf, 1, 1'000'000);
    f.integer("spines", x.spines, 1, 1'000'000);
    f.number("oversubscription", x.oversubscription);
    f.integer("ports", x.ports, 2, 256);
    f.integer("groups", x.groups, 1, 1'000'000);
    f.integer("routers", x.routers, 1, 1'000'000);
    f.integer("global_links", x.global_links, 0, 1'000'000);
    f.integer("extent_x", x.extent[0], 1, 1'000'000);
    f.integer("extent_y", x.extent[1], 1, 1'000'000);
    f.integer("extent_z", x.extent[2], 1, 1'000'000);
    f.quantity("link_gbps", x.link_rate, gbit);
}
template <class F, class T>
void describe_transport(F& f, T& t) {
    f.time("latency_us", t.latency, us);
    f.share("goodput", t.goodput);
    f.quantity("nic_cap_gbps", t.nic_cap, gbit);
    f.quantity("connection_cap_gbps", t.connection_cap, gbit);
    f.integer("connections", t.connections, 1, 1024);
    f.flag("through_host", t.through_host);
}
template <class F, class C>
void describe_cluster(F& f, C& c) {
    f.integer("machines", c.machines, 1, 10'000'000);
    f.time("latency_us", c.latency, us);
    f.quantity("flow_cap_gbps", c.flow_cap, gbit);
    f.share("goodput", c.goodput);
}

}  // namespace gx::sim::detail::machine_json
