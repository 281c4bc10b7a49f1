# Run by qgpu_embed at build time: writes HEADER and SOURCE with the bytes of INPUTS (separated by |).
string(REPLACE "|" ";" inputs "${INPUTS}")
file(WRITE ${HEADER}
     "#pragma once\n#include <string_view>\n#include <vector>\nnamespace qgpu::${NAMESPACE} {\n"
     "struct File {\n  std::string_view name, text;\n};\nconst std::vector<File>& Files();\n}\n")
set(arrays "")
set(entries "")
set(index 0)
foreach(input ${inputs})
  get_filename_component(name ${input} NAME)
  file(READ ${input} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "const unsigned char kFile${index}[] = {${bytes}0};\n")
  string(APPEND entries "    {\"${name}\", {reinterpret_cast<const char*>(kFile${index}), ${size}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${SOURCE}
     "#include \"embedded/${NAME}.h\"\nnamespace qgpu::${NAMESPACE} {\nnamespace {\n${arrays}}\n"
     "const std::vector<File>& Files() {\n  static const std::vector<File> files = {\n${entries}  };\n"
     "  return files;\n}\n}\n")
