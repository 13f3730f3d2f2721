import{o as e}from"./index-vapbSeqR.js";const o={name:"chevron-right",size:24,node:[["path",{d:"m9 18 6-6-6-6",key:"mthhwq"}]]};o.node;const n=e(o);export{n as C};
