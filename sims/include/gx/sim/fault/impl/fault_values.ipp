// describe(Fault): the bodies.
#pragma once

#include <string>   // sentences
#include <variant>  // visit

#include <gx/io/duration_text.hpp>        // duration_text
#include <gx/sim/fault/fault_values.hpp>  // Fault

namespace gx::sim {

namespace detail::faults {

GX_DECL std::string text(Nanoseconds t) { return t == forever ? "forever" : duration_text(t); }
GX_DECL std::string text(const Wire& w) {
    const char* way = w.direction == Direction::out  ? ", out"
                      : w.direction == Direction::in ? ", in"
                                                     : "";
    const std::string which = w.nic < 0 ? std::string("NIC") : "NIC " + std::to_string(w.nic);
    return (w.machine >= 0 ? which + " of machine " + std::to_string(w.machine)
                           : "links of GPU " + std::to_string(w.gpu)) +
           way;
}
template <class F>
std::string where(const F& f) {
    if constexpr (requires { f.wire; }) return text(f.wire);
    else if constexpr (requires { f.which; }) return to_string(f.which);
    else if constexpr (requires { f.nic; })
        return "NIC " + std::to_string(f.nic) + " of machine " + std::to_string(f.machine);
    else if constexpr (requires { f.rank; }) return "rank " + std::to_string(f.rank);
    else if constexpr (requires { f.from; })
        return "from rank " + std::to_string(f.from) +
               (f.to < 0 ? std::string(" to any") : " to rank " + std::to_string(f.to));
    else return "checkpoint " + std::to_string(f.write);
}

}  // namespace detail::faults

GX_DECL std::string describe(const Fault& fault, std::size_t index) {
    return "fault " + std::to_string(index) + ", " + std::string(name_of(class_of(fault))) + ", " +
           std::visit(
               [](const auto& f) {
                   std::string text = detail::faults::where(f);
                   if constexpr (requires { f.at; }) text += ", at " + detail::faults::text(f.at);
                   return text;
               },
               fault);
}

}  // namespace gx::sim
