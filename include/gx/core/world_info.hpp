// WorldInfo: clock type, price and model corrections that a World adds to the run report.
#pragma once

#include <cstdint>  // uint64_t
#include <string>   // names
#include <vector>   // notes

#include <gx/core/units.hpp>  // DollarsPerHour

namespace gx {

/// Description of a world for reports. A world without `info()` has a wall clock and no price.
struct WorldInfo {
    std::string world{};
    std::string clock = "wall";        ///< "wall" or "virtual"
    std::string timed_as{};            ///< model on the clock, if not the trained one
    std::vector<std::string> notes{};  ///< profile and corrections in force, one sentence each
    int timed_batch = 0;               ///< images a rank and step on the clock; 0: as trained
    DollarsPerHour price{};            ///< of all machines together
    std::uint64_t event_hash = 0;      ///< of the last run; 0 where events are not hashed
};

}  // namespace gx
