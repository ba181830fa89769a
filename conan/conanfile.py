# Recipe of the header-only package gx. The libraries it needs are Conan's; oneDNN, where it is
# asked for, is the system's. Nothing is built but the test_package.
#
#     conan create conan --build=missing
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy


class Gx(ConanFile):
    name = "gx"
    version = "0.1.0"
    license = "MIT"
    description = "Data-parallel training composed as a type, on real and on simulated clusters"
    topics = ("machine-learning", "distributed", "simulation", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"with_onednn": [True, False]}
    default_options = {"with_onednn": False, "boost/*:without_context": False}
    no_copy_source = True

    def export_sources(self):
        root = Path(self.recipe_folder).parent
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "sims/*",
                        "reference/*", "plugins/*"):
            copy(self, pattern, src=root, dst=self.export_sources_folder)

    def requirements(self):
        self.requires("boost/1.81.0")
        self.requires("nlohmann_json/3.11.2")
        self.requires("fmt/9.1.0")
        self.requires("range-v3/0.12.0")
        self.requires("zlib/[>=1.2.13 <2]")

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"GX_BUILD_{part}"] = False
        toolchain.cache_variables["GX_WITH_ONEDNN"] = bool(self.options.with_onednn)
        toolchain.generate()

    generators = "CMakeDeps"

    def build(self):
        cmake = CMake(self)
        cmake.configure()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        # gx's own gxConfig.cmake, which knows the components, is what consumers find.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/gx"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
